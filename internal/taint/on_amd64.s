//go:build taint && linux

#include "textflag.h"

// func request(code, a, b, c, d, e uintptr) uintptr
//
// The four rotations, which add up to two turns, and the exchange do nothing on a
// processor. Valgrind takes them for a request whose arguments AX points to, and
// answers in DX.
TEXT ·request(SB), NOSPLIT, $0-56
	LEAQ code+0(FP), AX
	XORL DX, DX
	ROLQ $3, DI
	ROLQ $13, DI
	ROLQ $61, DI
	ROLQ $51, DI
	XCHGQ BX, BX
	MOVQ DX, ret+48(FP)
	RET
