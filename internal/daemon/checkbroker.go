package daemon

import (
	"errors"
	"io/fs"

	"github.com/hencedge/hencedge/config"
)

// CheckBroker looks at what is read when a role connects to b: TLS files and password.
// who is the user that must be able to read them, such as "the user that the agent runs
// as", and group the one that its files may belong to, or empty. fail is told of every
// fault, with its field and a remedy.
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
