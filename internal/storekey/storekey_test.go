// SPDX-License-Identifier: Apache-2.0

package storekey

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/athena-go/athena/member"
)

// TestOnlyTheStoreProvesItself tests protocol.md section 8: a proof is valid for one store, one
// connection and one end of it.
func TestOnlyTheStoreProvesItself(t *testing.T) {
	key, other := New(), New()
	binding := []byte("channel binding of a connection")
	public, signature := key.Sign(binding, true)
	otherPublic, otherSignature := other.Sign(binding, true)
	for _, c := range []struct {
		name      string
		id        member.StoreID
		public    [PublicBytes]byte
		signature [SignatureBytes]byte
		binding   string
		active    bool
		want      error
	}{
		{"the store itself", key.StoreID(), public, signature, string(binding), true, nil},
		{"another store", other.StoreID(), public, signature, string(binding), true, ErrUnproved},
		{"another key", key.StoreID(), otherPublic, otherSignature, string(binding), true, ErrUnproved},
		{"another signer", key.StoreID(), public, otherSignature, string(binding), true, ErrUnproved},
		{"another connection", key.StoreID(), public, signature, "another", true, ErrUnproved},
		{"the other end", key.StoreID(), public, signature, string(binding), false, ErrUnproved},
		{"no proof", key.StoreID(), [PublicBytes]byte{}, [SignatureBytes]byte{}, "", true, ErrUnproved},
	} {
		err := Check(c.id, c.public, c.signature, []byte(c.binding), c.active)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: Check returned %v, want %v", c.name, err, c.want)
		}
	}
}

func TestKeyIsSavedButNotShown(t *testing.T) {
	key := New()
	saved, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	var read Key
	if err := json.Unmarshal(saved, &read); err != nil || read != key {
		t.Errorf("reading %s returned %v, want the same key", saved, err)
	}
	digits := strings.Trim(string(saved), `"`)
	for _, shown := range []string{
		fmt.Sprint(key), fmt.Sprintf("%+v", key), fmt.Sprintf("%#v", key),
	} {
		if strings.Contains(shown, digits) || !strings.Contains(shown, "secret") {
			t.Errorf("a key is shown as %s", shown)
		}
	}
	for _, bad := range []string{`""`, `"00"`, `"` + strings.Repeat("x", 2*KeyBytes) + `"`} {
		if err := json.Unmarshal([]byte(bad), &read); err == nil ||
			strings.Contains(err.Error(), "xx") {
			t.Errorf("reading %s returned %v, want an error without the digits", bad, err)
		}
	}
}
