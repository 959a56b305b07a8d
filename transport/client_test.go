package transport

import (
	"errors"
	"testing"
)

func TestCheckFresh(t *testing.T) {
	if err := (Delivery{Topic: "q", Retained: true}).CheckFresh(); !errors.Is(err, ErrWrongDelivery) {
		t.Error(err)
	}
	if err := (Delivery{Topic: "q"}).CheckFresh(); err != nil {
		t.Error(err)
	}
}
