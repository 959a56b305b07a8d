package store

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/store/postgres"
	"github.com/hencedge/hencedge/transport"
)

// The dashboard of Grafana for this database asks what a real PostgreSQL answers, to somebody who
// may read the tables and nothing else. Its macros are written out as Grafana does.
func TestResultsDashboard(t *testing.T) {
	raw, err := os.ReadFile("../../config/examples/grafana/results.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			Title, Description string
			Targets            []struct{ Format, RawSQL string }
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	server := postgres.Start(t, "")
	database := server.Database(t)
	s := open(t, kept(t, server, database), false)
	for n := range 120 {
		add(t, s, result("mean", n), result("load", n, func(r *keyholder.Result) { r.Device = "pump'17" }))
	}
	add(t, s, result("fleet", 3, func(r *keyholder.Result) {
		r.Inputs, r.Fleet = nil, &transport.Fleet{Devices: 5, Windows: 7, Samples: 70, Digest: [32]byte{4}}
	}))
	tidy(t, s)
	server.Exec(t, database, "CREATE ROLE looker", "GRANT USAGE ON SCHEMA hencedge TO looker",
		"GRANT SELECT ON ALL TABLES IN SCHEMA hencedge TO looker")
	db := server.DB(t, database)
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("SET ROLE looker; SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	written := strings.NewReplacer("${program:sqlstring}", "'mean','load','fleet'",
		"${device:sqlstring}", "'','pump''17'")
	filter := regexp.MustCompile(`\$__unixEpochNanoFilter\(([a-z_.]+)\)`)
	from, to := noon.UnixNano(), noon.Add(2*time.Hour).UnixNano()
	ask := func(what, text string) (columns []string) {
		t.Helper()
		text = filter.ReplaceAllString(written.Replace(text), fmt.Sprintf("$1 >= %d AND $1 <= %d", from, to))
		rows, err := db.Query(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", what, err, text)
		}
		defer rows.Close()
		if columns, err = rows.Columns(); err != nil {
			t.Fatal(err)
		}
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		n := 0
		for rows.Next() {
			if err := rows.Scan(values...); err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				if *v.(*any) == nil {
					t.Fatalf("%s: %s is null", what, columns[i])
				}
			}
			n++
		}
		if err := rows.Err(); err != nil || n == 0 {
			t.Errorf("%s: %d rows, %v", what, n, err)
		}
		return columns
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			ask("variable "+v.Name, v.Query)
		}
	}
	if len(d.Panels) < 10 {
		t.Errorf("%d panels", len(d.Panels))
	}
	for _, p := range d.Panels {
		if p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("%q has no description or asks nothing", p.Title)
		}
		for _, target := range p.Targets {
			columns := ask(p.Title, target.RawSQL)
			if target.Format == "time_series" && (len(columns) < 3 || columns[0] != "time" || columns[1] != "metric") {
				t.Errorf("%s: columns %q", p.Title, columns)
			}
		}
	}
}
