//go:build linux && (amd64 || arm64) && !nogpu

package main

// builtWithGPU: this build can open the CUDA driver.
const builtWithGPU = true
