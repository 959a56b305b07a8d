"""The encoder: slots to polynomials and back, by docs/cryptography.md."""
import cmath


def fft(x, sign):
    """sum over k of x[k] * exp(sign*2*pi*i*j*k/n) for every j."""
    n = len(x)
    bits = n.bit_length() - 1
    x = [x[int(format(i, f"0{bits}b")[::-1], 2)] for i in range(n)]
    roots = [cmath.exp(sign * 2j * cmath.pi * k / n) for k in range(n // 2)]
    size = 2
    while size <= n:
        half, step = size // 2, n // size
        for start in range(0, n, size):
            for k in range(half):
                a, b = x[start + k], x[start + k + half] * roots[k * step]
                x[start + k], x[start + k + half] = a + b, a - b
        size *= 2
    return x


def order(n):
    """The k for which slot j is at zeta^(2k+1), zeta = exp(i*pi/n)."""
    out, power = [], 1
    for _ in range(n // 2):
        out.append(power // 2)
        power = power * 5 % (2 * n)
    return out


def decode(coeffs, scale):
    """The n/2 complex slots of real coefficients."""
    n = len(coeffs)
    turned = [c / scale * cmath.exp(1j * cmath.pi * k / n) for k, c in enumerate(coeffs)]
    values = fft(turned, 1)
    return [values[k] for k in order(n)]


def encode(slots, n, scale):
    """The n integral coefficients of the polynomial with these slots; others are 0."""
    values = [0j] * n
    for k, z in zip(order(n), slots):
        values[k], values[n - 1 - k] = z, complex(z).conjugate()
    return [round((c * cmath.exp(-1j * cmath.pi * k / n)).real / n * scale) for k, c in enumerate(fft(values, -1))]


def packed(slots):
    """Two reals a slot."""
    return [x for z in slots for x in (z.real, z.imag)]
