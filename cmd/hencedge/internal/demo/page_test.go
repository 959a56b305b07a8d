//go:build !nostore

package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
)

// TestDemoWeb plays a window with the page, and reads there what went through the roles.
func TestDemoWeb(t *testing.T) {
	v := &visitor{}
	asked := false
	playOne(t, Options{Web: true, Version: "1.2.3", Params: "edge12-d1", Samples: 4, OnPage: v.login,
		OnRow: func(r Row) error {
			if asked {
				return nil
			}
			asked = true
			return v.look(r)
		}})
	if !asked {
		t.Error("nobody looked")
	}
	if conn, err := net.Dial("tcp", v.host); err == nil {
		conn.Close()
		t.Error("the page is there after the demo")
	}
}

// visitor is somebody with a browser.
type visitor struct {
	http.Client
	host string
}

func (v *visitor) login(link string) error {
	u, err := url.Parse(link)
	if err != nil {
		return err
	}
	v.host = u.Host
	if v.Jar, err = cookiejar.New(nil); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"secret": strings.TrimPrefix(u.Fragment, "login=")})
	if err != nil {
		return err
	}
	resp, err := v.Post("http://"+u.Host+"/api/login", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("login: %s", resp.Status)
	}
	return nil
}

func (v *visitor) get(path string, into any) error {
	resp, err := v.Get("http://" + v.host + "/api/" + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// look finds the first result with all that led to it.
func (v *visitor) look(r Row) error {
	seen := map[string]json.RawMessage{}
	var err error
	complete := func() bool {
		var got struct {
			Events []struct {
				Name string
				Data json.RawMessage
			}
		}
		if err = v.get("demo", &got); err != nil {
			return false
		}
		for _, e := range got.Events {
			var m wire
			if (e.Name == "up" || e.Name == "res") && (json.Unmarshal(e.Data, &m) != nil || len(m.Hex) != 2*excerpt) {
				continue
			}
			if seen[e.Name] == nil {
				seen[e.Name] = e.Data
			}
		}
		return len(seen) == 5 // window, up, evaluated, res, compared
	}
	if !testrig.Poll(complete) {
		return fmt.Errorf("the page shows %s, %v", slices.Sorted(maps.Keys(seen)), err)
	}
	var row struct {
		Row
		StartNS string `json:"start_ns"`
	}
	if err := json.Unmarshal(seen["compared"], &row); err != nil {
		return err
	}
	if row.Program != r.Program || row.Truth[0] != r.Truth[0] || row.Decrypted[0] != r.Decrypted[0] {
		return fmt.Errorf("the page shows %+v, want %+v", row, r)
	}
	var proof struct{ OK bool }
	q := url.Values{"program": {r.Program}, "start_ns": {row.StartNS}}
	if err := v.get("proof?"+q.Encode(), &proof); err != nil {
		return err
	}
	if !proof.OK {
		return fmt.Errorf("%+v has no proof", row)
	}
	var fleet struct {
		Rows []struct {
			State       string // offline once there are enough windows
			Version     string
			Certificate *int64 // Unix milliseconds
		}
	}
	told := func() bool {
		err = v.get("fleet", &fleet)
		return err == nil && len(fleet.Rows) == 1 && fleet.Rows[0].State != "" && fleet.Rows[0].Version == "1.2.3" &&
			fleet.Rows[0].Certificate != nil && time.UnixMilli(*fleet.Rows[0].Certificate).After(time.Now())
	}
	if !testrig.Poll(told) {
		return fmt.Errorf("the table of devices has %+v, %v", fleet, err)
	}
	return nil
}
