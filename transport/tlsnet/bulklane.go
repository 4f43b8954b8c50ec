// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/athena-go/athena/transport"
)

// needLane makes the dialing end connect the bulk lane. It does not block, and locks no lane.
func (c *conn) needLane() {
	c.mu.Lock()
	asked := c.laneAsked || c.err != nil
	c.laneAsked = true
	c.mu.Unlock()
	if !asked {
		c.network.spawn(c.connectLane)
	}
}

// connectLane connects the bulk lane. The connection ends if that fails.
func (c *conn) connectLane() {
	if c.dialed == "" {
		c.lanes[systemLane].pushControl(frameOpenLane, 0, nil)
		select {
		case <-c.lanes[bulkLane].attached:
		case <-c.over:
		case <-time.After(2 * handshakeTimeout):
			c.fail(fmt.Errorf("%w: the peer did not connect the bulk lane", errLost))
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	defer context.AfterFunc(c.network.last, cancel)()
	t, err := c.dialLane(ctx)
	if err != nil {
		c.fail(fmt.Errorf("%w: connect the bulk lane: %w", errLost, err))
		return
	}
	if !c.samePeer(t) {
		_ = t.socket.Close() // nothing was sent on it
		c.fail(fmt.Errorf("%w: the bulk lane reached another process", errLost))
		return
	}
	if !c.lanes[bulkLane].attach(t) {
		c.network.closeUnused(t.socket)
	}
}

// lanePause is the pause after the first attempt to connect the bulk lane. Each failure doubles it.
const lanePause = 20 * time.Millisecond

// dialLane dials a TCP connection for the bulk lane. It retries while the connection lasts, because
// a peer with too many pending handshakes refuses it.
func (c *conn) dialLane(ctx context.Context) (t tlsConn, err error) {
	for pause := lanePause; ; pause *= 2 {
		t, err = c.network.handshake(ctx, c.dialed, c.id, bulkLane)
		if err == nil || errors.Is(err, transport.ErrCertificate) {
			return t, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return t, err
		case <-c.over:
			return t, err
		}
	}
}

// samePeer reports whether a lane leads to the member that the certificate of the connection names.
// The member may have renewed its certificate in the meantime.
func (c *conn) samePeer(t tlsConn) bool {
	if c.peer == nil {
		return true
	}
	now := t.ConnectionState().PeerCertificates[0]
	return slices.Equal(c.peer.DNSNames, now.DNSNames) &&
		slices.EqualFunc(c.peer.IPAddresses, now.IPAddresses, net.IP.Equal) &&
		slices.EqualFunc(c.peer.URIs, now.URIs, func(a, b *url.URL) bool { return *a == *b }) &&
		c.peer.Subject.CommonName == now.Subject.CommonName
}
