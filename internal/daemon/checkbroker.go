package daemon

import (
	"errors"
	"io/fs"

	"github.com/hencedge/hencedge/config"
)

// CheckBroker checks the TLS files and the password that a role reads to connect to b. who
// names the user that must be able to read them, such as "the user that the agent runs as".
// group is the group that the files may belong to, or empty. CheckBroker calls fail for
// every fault, with its field and a remedy.
func CheckBroker(b config.Broker, who, group string, fail func(path, remedy string, err error)) {
	if field, err := tlsFiles(b).Check(); err != nil {
		remedy := "correct the path or the file"
		if errors.Is(err, fs.ErrPermission) {
			remedy = "let " + who + " read the file and enter its directory"
		}
		fail("broker."+field, remedy, err)
	}
	secret, err := b.Password.Resolve()
	if err != nil {
		remedy := b.Password.Available()
		if errors.Is(err, fs.ErrPermission) {
			remedy = "let " + who + " read it"
			if group != "" {
				remedy += " (chown root:" + group + ", chmod 640)"
			}
			remedy += ", or hand it over as cred:"
		}
		fail("broker.password", remedy, err)
	}
	clear(secret)
}
