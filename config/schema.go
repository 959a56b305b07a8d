package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hencedge/hencedge/config/internal/rule"
)

//go:generate go run ./internal/gendoc

// Roles returns the roles that have a configuration.
func Roles() []string { return []string{"agent", "evaluator", "keyholder"} }

// Schemas returns the names that Schema takes: the roles, and "remote" for what an operator
// sends to an agent.
func Schemas() []string { return append(Roles(), "remote") }

// Schema returns the JSON Schema of a role's configuration, or of a remote one, for editors.
// It says the same as the check (rules), except what needs arithmetic or refers to another
// place, and describes the keys with the comments of the Go types.
func Schema(role string) ([]byte, error) {
	types := map[string]reflect.Type{
		"agent": reflect.TypeFor[Agent](), "evaluator": reflect.TypeFor[Evaluator](),
		"keyholder": reflect.TypeFor[KeyHolder](), "remote": reflect.TypeFor[overlay](),
	}
	t, ok := types[role]
	if !ok {
		return nil, fmt.Errorf("%w: no role %q: use %s", ErrInvalid, role, strings.Join(Schemas(), ", "))
	}
	return rules.Schema(t, rule.Options{
		Role: role, ID: "https://github.com/hencedge/hencedge/schema/" + role + ".json", Title: "hencedge " + role,
		Describe: describeField, Comment: func(t reflect.Type) string { return fieldDoc[t.Name()] },
	})
}

// describeField returns the comment of a field, else of the type that it holds, else of
// the broker's field of the same name (other connections repeat them).
func describeField(owner reflect.Type, f reflect.StructField) string {
	if doc := fieldDoc[owner.Name()+"."+f.Name]; doc != "" {
		return doc
	}
	t := f.Type
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if doc := fieldDoc[t.Name()]; doc != "" {
		return doc
	}
	if doc := fieldDoc["Agent."+f.Name]; doc != "" && owner == reflect.TypeFor[overlay]() {
		return doc
	}
	return fieldDoc["Broker."+f.Name]
}
