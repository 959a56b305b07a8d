package yamlx

import (
	"reflect"
)

// A Field is one key of a struct.
type Field struct {
	Name  string
	Opts  string // see Decoder
	Value reflect.Value
}

// Fields returns the keys of a struct, with inlined structs flattened.
func Fields(v reflect.Value) []Field {
	var out []Field
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, ok := f.Tag.Lookup("yaml")
		if !ok {
			continue
		}
		if tag == ",inline" {
			out = append(out, Fields(v.Field(i))...)
			continue
		}
		out = append(out, Field{tag, f.Tag.Get("cfg"), v.Field(i)})
	}
	return out
}
