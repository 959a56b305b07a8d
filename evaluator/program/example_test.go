package program_test

import (
	"fmt"
	"log"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// An expression becomes a circuit without any key; the circuit says which keys it needs
// and what error it promises, and runs on ciphertexts.
func Example() {
	params, err := henc.Named("edge13-d3")
	if err != nil {
		log.Fatal(err)
	}
	motor := config.Stream{
		Name: "motor", Params: params.Name(), Packing: config.PackingReal, Window: config.Window{Samples: 4},
		Channels: []config.Channel{
			{Name: "current", Unit: "A", Range: [2]float64{0, 20}},
			{Name: "voltage", Unit: "V", Range: [2]float64{210, 250}},
		},
	}
	circuit, err := program.Compile(program.Source{
		Name: "power", Expr: "mean(i*u)",
		Vars: map[string]program.Var{"i": {Device: "pump", Stream: motor, Channel: 0},
			"u": {Device: "pump", Stream: motor, Channel: 1}},
	}, params)
	if err != nil {
		log.Fatal(err)
	}
	out := circuit.Output()
	fmt.Printf("rotations %v, within %.0f W\n", circuit.Rotations(), out.Bound)

	// The key holder and the device.
	ctx, err := henc.NewContext(params)
	if err != nil {
		log.Fatal(err)
	}
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	keys, err := key.EvaluationKeys(circuit.Rotations(), false)
	if err != nil {
		log.Fatal(err)
	}
	samples := [][]float64{{5, 6, 7, 8}, {230, 232, 230, 230}}
	slots := make([]float64, motor.Slots())
	for c, channel := range motor.Channels {
		mid, half := channel.Affine()
		for i, x := range samples[c] {
			slots[c*motor.Stride()+i] = (x - mid) / half
		}
	}
	window, err := secret.NewSeededEncryptor(ctx, key).EncryptReal(slots, params.MaxLevel(),
		program.InputScale(params, motor), nil)
	if err != nil {
		log.Fatal(err)
	}

	// The evaluator.
	inputs := map[program.Input]*henc.Ciphertext{circuit.Inputs()[0]: window}
	result, out, err := circuit.Run(henc.NewEvaluator(ctx, keys), inputs)
	if err != nil {
		log.Fatal(err)
	}

	// The key holder: a value is A times its slot, plus B.
	values, err := secret.NewDecryptor(ctx, key).DecryptReal(result)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.0f W\n", out.A*values[out.Slot]+out.B)
	// Output:
	// rotations [1 2 4], within 1 W
	// 1498 W
}
