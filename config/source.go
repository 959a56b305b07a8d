package config

// A Source says where a channel's samples come from. Which fields belong to
// which type is listed in docs/configuration.md; others are refused.
type Source struct {
	Type SourceType `yaml:"type" cfg:"required"`
	// Chip is a hwmon chip or an IIO device by its name ("coretemp"), its place on
	// its bus ("1-0048") or its directory ("hwmon2").
	Chip string `yaml:"chip"`
	// Input is a hwmon input ("temp1", "in0", "curr1", "power1", "fan2", "humidity1");
	// Label selects it by its label file instead.
	Input string `yaml:"input"`
	Label string `yaml:"label"`
	// Zone is a thermal zone by its type ("CPU-therm") or directory
	// ("thermal_zone0").
	Zone string `yaml:"zone"`
	// CPU is "total" or "cpuN".
	CPU string `yaml:"cpu"`
	// Device is a block device ("mmcblk0"), Interface a network interface
	// ("eth0").
	Device    string `yaml:"device"`
	Interface string `yaml:"interface"`
	// Field selects the quantity of cpu, memory, load, disk and net.
	Field string `yaml:"field"`
	// Column is the column (CSV) or dotted field (NDJSON) of a replay file.
	Column string `yaml:"column"`
	// Scale and Offset convert a reading to the channel's unit:
	// value = reading*Scale + Offset. Scale 0 means 1.
	Scale  float64 `yaml:"scale"`
	Offset float64 `yaml:"offset" cfg:"zero"`
	// Point says which quantity of an input is read (see Input).
	Point `yaml:",inline"`
}

// A Point says which quantity of an input, or of a device, a source reads.
// Which keys belong to which type stands in sourceKinds.
type Point struct {
	// From names the input.
	From string `yaml:"from"`
	// Register is the address of a register or coil, counted from 0; Table is
	// the Modbus table: "holding", "input", "coil" or "discrete".
	Register *int   `yaml:"register" cfg:"zero"`
	Table    string `yaml:"table"`
	// Data is how the bits are read: DataTypes for registers, CANDataTypes for
	// CAN signals.
	Data string `yaml:"data"`
	// Order is the order of bytes: "big" or "little"; for Modbus also
	// "word_swap" (low word first) and "byte_swap" (low byte first in each word).
	Order string `yaml:"order"`
	// Start and Length choose bits: of a register's value, counted from the
	// lowest; of a CAN frame, as DBC files count them.
	Start  *int `yaml:"start" cfg:"zero"`
	Length *int `yaml:"length"`
	// ID is the identifier of a CAN frame. A frame matches when its identifier
	// is equal in the bits that Mask has set; without Mask in all. Extended
	// asks for 29-bit identifiers.
	ID       *int `yaml:"id" cfg:"zero"`
	Mask     *int `yaml:"mask" cfg:"zero"`
	Extended bool `yaml:"extended"`
	// Mux is the value that the multiplexor of a CAN frame has when the signal is in
	// it; MuxStart and MuxLength say where the multiplexor stands, with the signal's
	// order.
	Mux       *int `yaml:"mux" cfg:"zero"`
	MuxStart  *int `yaml:"mux_start" cfg:"zero"`
	MuxLength *int `yaml:"mux_length"`
	// Topic is an MQTT topic filter, which may have wildcards.
	Topic string `yaml:"topic"`
	// Path leads to a number in JSON, as gjson reads it: "a.b.0.c".
	Path string `yaml:"path"`
	// Pattern is a regular expression (RE2) whose only group is the number.
	Pattern string `yaml:"pattern"`
	// Sentence is the type of an NMEA 0183 sentence, without the talker: "GGA".
	Sentence string `yaml:"sentence"`
	// Rail is a power rail by its label.
	Rail string `yaml:"rail"`
}

// SourceType names a kind of sensor.
type SourceType string

// The kinds of sensors.
const (
	SourceHwmon   SourceType = "hwmon"   // /sys/class/hwmon: temperature, voltage, current, power, fan
	SourceThermal SourceType = "thermal" // /sys/class/thermal: thermal zones
	SourceCPU     SourceType = "cpu"     // /proc/stat: share of time in percent
	SourceMemory  SourceType = "memory"  // /proc/meminfo
	SourceLoad    SourceType = "load"    // /proc/loadavg
	SourceDisk    SourceType = "disk"    // /proc/diskstats: rates
	SourceNet     SourceType = "net"     // /proc/net/dev: rates
	SourceReplay  SourceType = "replay"  // a column of the stream's replay file
)

// The kinds of sensors that stand outside /sys and /proc or that need more than
// a name there.
const (
	SourceIIO    SourceType = "iio"    // /sys/bus/iio: converters, accelerometers, light, pressure, ...
	SourcePower  SourceType = "power"  // rails of board power monitors (INA3221 and hwmon)
	SourceGPU    SourceType = "gpu"    // load and clock of an integrated or discrete GPU
	SourceI2C    SourceType = "i2c"    // registers of a device on an I2C bus
	SourceSPI    SourceType = "spi"    // registers of a device on an SPI bus
	SourceModbus SourceType = "modbus" // registers and coils, over TCP or a serial line
	SourceCAN    SourceType = "can"    // signals of frames on a CAN bus
	SourceSerial SourceType = "serial" // lines of text from a serial port
	SourceExec   SourceType = "exec"   // output of a command
	SourceHTTP   SourceType = "http"   // answer of a web server
	SourceMQTT   SourceType = "mqtt"   // messages of another broker
)
