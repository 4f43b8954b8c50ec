// SPDX-License-Identifier: Apache-2.0

package eventname

import "testing"

func TestIsReserved(t *testing.T) {
	for name, want := range map[string]bool{
		AdminStatus: true, AdminAct: true, Election: true, Watch: true, Record: true,
		"athena/": true, "athena.later": true,
		"": false, "athena": false, "athenaOrder": false, "Order": false, "my.athena.act": false,
	} {
		if got := IsReserved(name); got != want {
			t.Errorf("%q: got reserved %t, want %t", name, got, want)
		}
	}
}
