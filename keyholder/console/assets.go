package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"path"
	"strings"
)

// The page, as "make console" builds it from web/.
//
//go:embed assets
var embedded embed.FS

// sources has the digest of what the page was built from.
const sources = "sources.txt"

// asset is a file of the page.
type asset struct {
	kind         string
	plain, small []byte
	tag          string
}

// kinds are the types of the page's files by suffix.
var kinds = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}

// assets returns the page's files by path.
func assets() map[string]asset {
	out := map[string]asset{}
	list, _ := embedded.ReadDir("assets")
	for _, e := range list {
		b, err := embedded.ReadFile("assets/" + e.Name())
		if err != nil || e.Name() == sources {
			continue
		}
		var small bytes.Buffer
		z := gzip.NewWriter(&small)
		_, _ = z.Write(b)
		_ = z.Close()
		a := asset{kinds[path.Ext(e.Name())], b, small.Bytes(), fmt.Sprintf(`"%x"`, sha256.Sum256(b))}
		out["/"+e.Name()] = a
		if e.Name() == "index.html" {
			out["/{$}"] = a
		}
	}
	return out
}

// asset sends a file of the page, which holds nothing but code.
func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	a, found := c.files[r.URL.Path]
	if !found {
		a = c.files["/{$}"]
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", a.tag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write(a.small)
		return
	}
	_, _ = w.Write(a.plain)
}
