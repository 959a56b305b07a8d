// Command gen writes the units of the packages into the systemd directory.
package main

import (
	"log"
	"os"

	"github.com/hencedge/hencedge/systemd"
)

func main() {
	for _, r := range systemd.Roles() {
		text, err := systemd.Unit(r, systemd.Options{})
		if err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(r.Name()+".service", []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
