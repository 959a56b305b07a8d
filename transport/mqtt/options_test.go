package mqtt

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The document of the wire format names the largest message that is taken.
func TestDocumentNamesLimit(t *testing.T) {
	doc, err := os.ReadFile("../../docs/wire-format.md")
	if err != nil {
		t.Fatal(err)
	}
	limit := fmt.Sprintf("default %d MiB of payload", DefaultMaxInbound>>20)
	if flat := strings.Join(strings.Fields(string(doc)), " "); !strings.Contains(flat, limit) {
		t.Errorf("the document does not say %q", limit)
	}
}
