package role

import (
	"errors"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// RunGroup runs cmd, which was made with a context and not started, as a process group of its
// own. When the program has ended, or the context, everything that it started is killed. Its
// errors are those of cmd.Start and cmd.Wait.
func RunGroup(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for children that left the group and hold a pipe
	if err := cmd.Start(); err != nil {
		return err
	}
	ended(cmd.Process.Pid)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	return cmd.Wait()
}

// ended waits until a child has ended and leaves it to be reaped: until then its number
// belongs to no other group.
func ended(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}
