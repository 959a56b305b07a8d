// The extension of digits of a few limbs (ModUp) in the forward transform of what it
// extends to, see digits.cuh.
#include "digits.cuh"

// a: the sources; dst: the transforms; grid as forward_LOG.
template <int LOG, int COUNT> DEV void up(const UpArgs& p, const Site& at) {
  const Digits<COUNT> d(p.digits + 4 * at.limb, p.a + at.poly * p.as, p.logN, at.q);
  forward<LOG>(at, shared, d, Writes{at.start(p.dst, p.ds, p.logN)});
}
COLUMNS(UpArgs, 11, up_11) {
  SINCE80(
    if (__ldg(p.digits + 4 * at.limb + 3).y == 1) up<11, 1>(p, at); // the same for the whole block
    else up<11, 3>(p, at);
  )
}
COLUMNS(UpArgs, 12, up_12) { SINCE80(up<12, 3>(p, at);) }
