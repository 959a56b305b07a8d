package units

import (
	"strings"
	"testing"

	"github.com/hencedge/hencedge/systemd"
)

// A crash loop is not "running", and the reason for a failure is named.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		out, text string
		good      bool
	}{
		{"LoadState=loaded\nActiveState=active\nSubState=running\nNRestarts=0\nResult=success\nMainPID=12",
			"running", true},
		{"LoadState=loaded\nActiveState=active\n" +
			"SubState=running\nNRestarts=7\nResult=watchdog", "7 restarts; last result: watchdog", true},
		{"LoadState=loaded\nActiveState=activating\n" +
			"SubState=auto-restart\nNRestarts=3\nResult=exit-code\nExecMainStatus=1",
			"crashing: 3 restarts, last result exit-code, exit code 1", false},
		{"LoadState=loaded\nActiveState=activating\n" +
			"SubState=auto-restart-queued\nNRestarts=3\nResult=exit-code\nExecMainStatus=1",
			"crashing: 3 restarts", false},
		{"LoadState=loaded\nActiveState=reloading\nSubState=reload\nNRestarts=0\nResult=success", "reloads", true},
		{"LoadState=loaded\nActiveState=failed\n" +
			"SubState=failed\nResult=exit-code\nExecMainStatus=2", "the configuration is not valid", false},
		{"LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=oom-kill\nNRestarts=20",
			"failed: oom-kill", false},
		{"LoadState=not-found\nActiveState=inactive\nSubState=dead", "not installed", false},
		{"LoadState=loaded\nActiveState=inactive\nSubState=dead\nStatusText=a=b", "inactive dead", false},
		{"LoadState=loaded\nActiveState=inactive\n" +
			"SubState=dead\nConditionResult=no\nConditionTimestampMonotonic=7", "its configuration does not exist",
			false},
		// Never tried.
		{"LoadState=loaded\nActiveState=inactive\n" +
			"SubState=dead\nConditionResult=no\nConditionTimestampMonotonic=0", "inactive dead", false},
	} {
		u := parseUnit(systemd.Agent, c.out)
		if text, good := u.verdict(); !strings.Contains(text, c.text) || good != c.good {
			t.Errorf("%q: %q, %v, want %q, %v", c.out, text, good, c.text, c.good)
		}
	}
}

// A program or a configuration that the service would not see is refused.
func TestHiddenFromTheService(t *testing.T) {
	const good, conf = "/usr/local/bin/hencedge", "/etc/hencedge/agent.yaml"
	for _, c := range []struct{ binary, config, want string }{
		{good, conf, ""},
		{"/opt/hencedge/hencedge", "/srv/a.yaml", ""},
		{"/rootless/hencedge", "/homes/a.yaml", ""},
		{"/home/op/hencedge", conf, "/usr/local/bin"},
		{"/root/hencedge", conf, "/usr/local/bin"},
		{"/tmp/hencedge", conf, "/usr/local/bin"},
		{good, "/home/op/agent.yaml", "/etc/hencedge"},
		{good, "/run/user/1000/agent.yaml", "/etc/hencedge"},
	} {
		err := hidden(c.binary, c.config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v", c.binary, c.config, err)
		}
	}
	for _, r := range systemd.Roles() {
		unit, binary, config, err := unitFor(r, "")
		if err != nil || config != r.Config() || !strings.Contains(unit, "ExecStart="+binary+" ") {
			t.Errorf("%s: %q, %q, %v", r, binary, config, err)
		}
	}
}
