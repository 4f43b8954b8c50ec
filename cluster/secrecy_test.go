// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/simnet"
)

// page collects everything that is logged.
type page struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

// TestLogsHoldNoSecret checks that the log contains no secret at any level, and nothing of an event
// except its name.
func TestLogsHoldNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := simnet.NewPacketNet(time.Millisecond)
		log := &page{}
		const nextSecret, strangersSecret = "j17vGRRf1VIcI1OOeN+ktlbBQRypuytZvPkHHX+83sY=", otherSecret
		var nodes []*Node
		for i := range 3 {
			cfg, secret := quicConfig(i+1, clusterSecret), clusterSecret
			cfg.OtherSecret = []byte(nextSecret)
			if i == 2 {
				secret = strangersSecret
				cfg.Secret, cfg.OtherSecret = []byte(secret), nil
			}
			n, err := Start(t.Context(), cfg, WithSocket(p.Open), WithClock(time.Now),
				WithLogger(logTo(zerolog.New(log).Level(zerolog.TraceLevel))))
			if i == 2 {
				if err == nil || strings.Contains(err.Error(), secret) {
					t.Errorf("Start with another secret: got %v, want an error without it", err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			nodes = append(nodes, n)
		}
		if err := nodes[0].WaitActive(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		const body = "what nobody else may read"
		if err := nodes[0].Send(t.Context(), nodes[1].cfg.self, note{Text: body}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		key, err := nodes[0].store.ResetKey()
		if err != nil {
			t.Fatal(err)
		}
		text := log.String()
		if !strings.Contains(text, "dropped an event that has no handler here") {
			t.Errorf("the log does not tell of the event:\n%s", text)
		}
		for what, secret := range map[string]string{
			"secret": clusterSecret, "secret of another": strangersSecret, "event": body,
			"other secret": nextSecret, "other secret in hex": hex.EncodeToString([]byte(nextSecret)),
			"reset key": string(key[:]), "reset key in hex": hex.EncodeToString(key[:]),
			"secret in hex": hex.EncodeToString([]byte(clusterSecret)),
		} {
			if strings.Contains(text, secret) {
				t.Errorf("the log holds the %s", what)
			}
		}
	})
}

// TestInsecureCausesWarning checks that Insecure causes a warning and is shown in the status.
func TestInsecureCausesWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		j, logger := keep(zerolog.WarnLevel)
		n := w.add(0, Config{}, logger)
		if lines, _ := j.about("anyone who reaches the port"); len(lines) != 1 || !n.Status().Insecure {
			t.Errorf("warned %q, insecure %v; want one line, and true", lines, n.Status().Insecure)
		}
	})
}
