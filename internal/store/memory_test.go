// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMemory(t *testing.T) {
	key := [32]byte{1, 31: 9}
	m := NewMemory(key)
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
	if got, err := m.ResetKey(); err != nil || got != key {
		t.Errorf("ResetKey = %x, %v, want %x", got, err, key)
	}
	if err := m.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
