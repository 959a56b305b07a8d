package cutrantt

import "errors"

// Scaler is an optional interface of a Ring. It multiplies residues on their way through Extend. Call the function
// ExtendScaled instead of the method: it runs the separate operations if a ring does not implement Scaler or refuses
// with ErrNotSupported.
type Scaler interface {
	ExtendScaled(dst, src *Batch, pre, post []uint32) error
}

// ExtendScaled is Ring.Extend of src, limb i times pre[i], after which limb i of dst is multiplied by post[i]; nil
// stands for ones. The residues equal those of MulScalar, Extend and MulScalar bit for bit. What src holds afterwards
// is unspecified if there is pre. It fails as these do.
func ExtendScaled(r Ring, dst, src *Batch, pre, post []uint32) error {
	if s, ok := r.(Scaler); ok {
		if err := s.ExtendScaled(dst, src, pre, post); !errors.Is(err, ErrNotSupported) {
			return err
		}
	}
	if pre != nil {
		if err := r.MulScalar(src, src, pre); err != nil {
			return err
		}
	}
	if err := r.Extend(dst, src); err != nil || post == nil {
		return err
	}
	return r.MulScalar(dst, dst, post)
}
