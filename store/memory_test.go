// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMemory(t *testing.T) {
	m := NewMemory()
	if d, ok, err := m.Load(); ok || err != nil {
		t.Errorf("Load of a new store = %+v, %v, %v, want nothing", d, ok, err)
	}
	if err := m.Save(typical()); err != nil {
		t.Fatal(err)
	}
	got, ok, err := m.Load()
	if !ok || err != nil || !cmp.Equal(got, typical()) {
		t.Errorf("Load = %+v, %v, %v, want what was saved", got, ok, err)
	}
	first, err := m.ResetKey()
	again, _ := m.ResetKey()
	other, _ := NewMemory().ResetKey()
	if err != nil || first != again || first == other || first == [32]byte{} {
		t.Errorf("keys %x, %x, of another store %x, %v", first, again, other, err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
