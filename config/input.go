package config

// An Input is a device or a connection that the channels of an agent share:
// their sources name it with "from". Exactly one of the blocks I2C to MQTT is
// set. Local buses (i2c, spi) are read when a sample is due. Everything that can
// make one wait (modbus, exec, http) is polled in the background every Every,
// and what comes by itself (can, serial, mqtt) is kept as it comes; a sample
// takes the newest value, and one that is older than MaxAge is missing.
type Input struct {
	// Name is what sources refer to.
	Name string `yaml:"name" cfg:"required"`
	// Every is the time between polls; by default the shortest interval of the
	// streams that use the input.
	Every Duration `yaml:"every"`
	// Timeout bounds one poll.
	Timeout Duration `yaml:"timeout"`
	// MaxAge is the age at which a value counts as missing.
	MaxAge Duration `yaml:"max_age"`
	// Retry is the wait after a failure; it doubles with each further failure
	// up to RetryMax, with jitter.
	Retry    Duration `yaml:"retry"`
	RetryMax Duration `yaml:"retry_max"`

	I2C    *I2C    `yaml:"i2c"`
	SPI    *SPI    `yaml:"spi"`
	Modbus *Modbus `yaml:"modbus"`
	CAN    *CAN    `yaml:"can"`
	Serial *Serial `yaml:"serial"`
	Exec   *Exec   `yaml:"exec"`
	HTTP   *HTTP   `yaml:"http"`
	MQTT   *MQTT   `yaml:"mqtt"`
}

// I2C is a device with 8-bit register addresses on an I2C bus.
type I2C struct {
	Bus     *int       `yaml:"bus" cfg:"required,zero"` // N of /dev/i2c-N
	Address int        `yaml:"address" cfg:"required"`  // 7 bits, 0x08 to 0x77
	Setup   []Register `yaml:"setup"`                   // written when the device is opened, in order
}

// SPI is a device with 8-bit register addresses on an SPI bus.
type SPI struct {
	Bus        *int       `yaml:"bus" cfg:"required,zero"` // B of /dev/spidevB.C
	ChipSelect int        `yaml:"chip_select" cfg:"zero"`  // C
	Speed      int        `yaml:"speed"`                   // Hz
	Mode       int        `yaml:"mode" cfg:"zero"`         // clock polarity and phase, 0 to 3
	ReadMask   *int       `yaml:"read_mask" cfg:"zero"`    // set in a register's address to read it; default 0x80
	Setup      []Register `yaml:"setup"`
}

// A Register is one byte that is written into a device.
type Register struct {
	Register *int `yaml:"register" cfg:"required,zero"` // address of the byte, 0 to 255
	Value    *int `yaml:"value" cfg:"required,zero"`
}

// Modbus is one unit behind a TCP address or on a serial line.
type Modbus struct {
	// URL is tcp://host:502, rtu:///dev/ttyUSB0 or, for a gateway that passes
	// serial frames through, rtu+tcp://host:port.
	URL  string           `yaml:"url" cfg:"required"`
	Unit *int             `yaml:"unit" cfg:"zero"` // 0 to 247, default 1
	Line `yaml:",inline"` // rtu:// only
}

// Line is how a serial port is set.
type Line struct {
	Baud     int    `yaml:"baud"`
	DataBits int    `yaml:"data_bits"` // 7 or 8
	Parity   string `yaml:"parity"`    // none, even or odd
	StopBits int    `yaml:"stop_bits"` // 1 or 2
}

// CAN is a CAN interface, which the system has set up (bit rate, up).
type CAN struct {
	Interface string `yaml:"interface" cfg:"required"`
}

// Serial is a port that sends lines of text.
type Serial struct {
	Device string `yaml:"device" cfg:"required"`
	// Format of the lines: "csv", "json", "nmea" or "text" (sources have a
	// pattern).
	Format    string `yaml:"format" cfg:"required"`
	Delimiter string `yaml:"delimiter" cfg:"blank"` // csv: one character, default ","
	// Request is sent every Input.Every, for devices that speak when they are asked.
	Request string `yaml:"request" cfg:"blank"`
	Line    `yaml:",inline"`
}

// Exec is a command that is run again and again and prints values.
type Exec struct {
	// Command is the program, by its absolute path, and its arguments. There is
	// no shell.
	Command []string `yaml:"command" cfg:"required,blank"`
}

// HTTP is a page with values.
type HTTP struct {
	URL string `yaml:"url" cfg:"required"`
	// Username with Password, or Token (Authorization: Bearer), or a Header with
	// Token as its value.
	Username   string `yaml:"username"`
	Password   Secret `yaml:"password"`
	Token      Secret `yaml:"token"`
	Header     string `yaml:"header"`
	CA         string `yaml:"ca" cfg:"path"`
	Cert       string `yaml:"cert" cfg:"path"`
	Key        string `yaml:"key" cfg:"path"`
	ServerName string `yaml:"server_name"`
	// Insecure allows http:// to other machines.
	Insecure bool `yaml:"insecure"`
}

// MQTT is a broker with readings in clear, not the one that windows go to.
type MQTT struct {
	URL        string `yaml:"url" cfg:"required"`
	Insecure   bool   `yaml:"insecure"`
	ClientID   string `yaml:"client_id"`
	CA         string `yaml:"ca" cfg:"path"`
	Cert       string `yaml:"cert" cfg:"path"`
	Key        string `yaml:"key" cfg:"path"`
	ServerName string `yaml:"server_name"`
	Username   string `yaml:"username"`
	Password   Secret `yaml:"password"`
}

// Types returns the blocks that are set; a valid Input has one.
func (in Input) Types() []SourceType {
	var out []SourceType
	for _, b := range []struct {
		set bool
		t   SourceType
	}{
		{in.I2C != nil, SourceI2C}, {in.SPI != nil, SourceSPI}, {in.Modbus != nil, SourceModbus},
		{in.CAN != nil, SourceCAN},
		{in.Serial != nil, SourceSerial}, {in.Exec != nil, SourceExec}, {in.HTTP != nil, SourceHTTP},
		{in.MQTT != nil, SourceMQTT},
	} {
		if b.set {
			out = append(out, b.t)
		}
	}
	return out
}

// Type returns the kind of a valid input, "" of an invalid one.
func (in Input) Type() SourceType {
	if t := in.Types(); len(t) == 1 {
		return t[0]
	}
	return ""
}

// Polled reports whether the input is asked at a rate of its own.
func (in Input) Polled() bool { return in.Modbus != nil || in.Exec != nil || in.HTTP != nil }

// Asked reports whether the input has a rate of its own: it is polled, or it is a
// port on which requests are sent.
func (in Input) Asked() bool { return in.Polled() || in.Serial != nil && in.Serial.Request != "" }

// Pushed reports whether values come by themselves.
func (in Input) Pushed() bool { return in.CAN != nil || in.Serial != nil || in.MQTT != nil }

// Bauds returns the rates of serial lines.
func Bauds() []int {
	return []int{1200, 2400, 4800, 9600, 19200, 38400, 57600, 115200, 230400, 460800, 921600}
}
