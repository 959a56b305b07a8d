package outlet

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
)

// A page is posted to as it is written; a path is added with one slash.
func TestPostPage(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
	}))
	defer server.Close()
	for _, c := range [][3]string{
		{"/write", "", "/write"}, {"/write/", "", "/write/"}, {"", "", "/"}, {"/am/", "/api", "/am/api"},
		{"/write?db=a/", "", "/write?db=a/"},
	} {
		w, err := NewWeb(&config.HTTP{URL: server.URL + c[0]})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Post(t.Context(), c[1], nil, nil); err != nil || asked != c[2] {
			t.Errorf("%q and %q: %v, asked for %q", c[0], c[1], err, asked)
		}
		w.Close()
	}
}

// An answer says which status it has, whether it is final, and when to come again.
func TestPostStatus(t *testing.T) {
	status, after := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(status)
	}))
	defer server.Close()
	w, err := NewWeb(&config.HTTP{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, c := range []struct {
		status  int
		after   string
		refused bool
		want    time.Duration
	}{
		{429, "7", false, 7 * time.Second}, {503, "Mon, 02 Jan 2006 15:04:05 GMT", false, 0}, {503, "-1", false, 0},
		{500, "soon", false, 0}, {400, "", true, 0}, {302, "", true, 0}, {408, "1", false, time.Second},
	} {
		status, after = c.status, c.after
		err := w.Post(t.Context(), "", nil, nil)
		var got *StatusError
		if !errors.As(err, &got) || got.Code != c.status || got.After != c.want ||
			errors.Is(err, ErrRefused) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
