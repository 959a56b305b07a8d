package config

// units are the known units with common other spellings of each.
var units = []struct {
	unit    string
	aliases []string
}{

	{"1", []string{"none", "unitless", "count", "ratio"}},
	{"%", []string{"percent", "pct"}},
	{"degC", []string{"c", "°c", "celsius", "deg", "℃"}}, {"degF", []string{"f", "°f", "fahrenheit"}},
	{"K", []string{"kelvin"}},
	{"V", []string{"volt", "volts"}}, {"mV", []string{"millivolt"}},
	{"A", []string{"amp", "ampere", "amps"}}, {"mA", []string{"milliampere"}},
	{"W", []string{"watt", "watts"}}, {"mW", []string{"milliwatt"}}, {"kW", []string{"kilowatt"}},
	{"J", []string{"joule"}}, {"kWh", nil}, {"Wh", nil}, {"Ah", nil}, {"VA", nil}, {"var", nil},
	{"Ohm", []string{"ohm", "ω", "Ω"}},
	{"rpm", []string{"r/min", "rev/min"}}, {"Hz", []string{"hertz", "hz"}}, {"kHz", nil}, {"MHz", nil},
	{"s", []string{"sec", "second", "seconds"}}, {"ms", nil}, {"us", nil}, {"min", nil}, {"h", nil},
	{"B", []string{"byte", "bytes"}}, {"KiB", nil}, {"MiB", nil}, {"GiB", nil},
	{"B/s", []string{"bytes/s", "bps", "byte/s"}}, {"KiB/s", nil}, {"MiB/s", nil}, {"bit/s", nil},
	{"1/s", []string{"/s", "ops/s", "iops", "packets/s"}}, {"1/min", nil},
	{"Pa", []string{"pascal"}}, {"hPa", []string{"mbar"}}, {"kPa", nil}, {"bar", nil},
	{"m", []string{"meter", "metre"}}, {"mm", nil}, {"cm", nil}, {"km", nil}, {"um", nil},
	{"m/s", nil}, {"km/h", []string{"kph", "kmh"}}, {"m/s2", []string{"m/s^2", "m/s²"}}, {"g", nil}, {"kg", nil},
	{"mg", nil},
	{"rad", nil}, {"deg", []string{"degree", "degrees", "°"}}, {"rad/s", nil}, {"deg/s", nil}, {"T", nil}, {"uT", nil},
	{"N", nil}, {"Nm", nil}, {"L", nil}, {"L/min", nil}, {"m3/h", nil}, {"m3", nil}, {"m2", nil},
	{"lx", []string{"lux"}}, {"dB", nil}, {"dBA", nil}, {"dBm", nil}, {"ppm", nil}, {"ppb", nil}, {"ug/m3", nil},
	{"mg/m3", nil}, {"pH", nil}, {"%RH", nil}, {"W/m2", nil},
	{"bpm", nil}, {"cd", nil}, {"mol", nil}, {"mol/L", nil}, {"uS/cm", nil}, {"S/m", nil}, {"EUR", nil}, {"USD", nil},
}

func knownUnit(s string) bool {
	for _, u := range units {
		if u.unit == s {
			return true
		}
	}
	return false
}

// ownUnit starts a unit that is not in the table: "x:bottles".
const ownUnit = "x:"
