// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// World is a set of nodes that can reach each other, and the faults between them. It
// belongs to one test, and is made in its bubble.
type World interface {
	// Listen opens the network of the node at an address, or fails the test.
	Listen(t testing.TB, at member.Address) transport.Network
	// Cut stops everything from one node to another, without an error; Heal undoes it.
	Cut(from, to member.Address)
	Heal(from, to member.Address)
	// Kill ends a node like the end of its process; its address is free again.
	Kill(at member.Address)
	// Delay is the time from one node to another. If it is not 0, nodes that dial each other
	// simultaneously must cross.
	Delay() time.Duration
	// Close ends the goroutines of the world.
	Close()
}

// Run runs the suite, each test in its own world.
func Run(t *testing.T, newWorld func(t testing.TB) World) {
	for _, test := range suite() {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				// This runs last, after the nodes are closed.
				t.Cleanup(w.Close)
				test.run(t, w)
			})
		})
	}
}

// addr returns the address of the i-th node. The addresses are ordered by i.
func addr(i int) member.Address {
	return member.Address{Host: fmt.Sprintf("10.0.0.%d", i), Port: 7000}
}

// eventually waits, in the time of the bubble, until a condition holds.
func eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	start := time.Now()
	for !is() {
		if time.Since(start) > within {
			t.Fatalf("%s: not within %v", what, within)
		}
		time.Sleep(time.Millisecond)
	}
}

// suiteTest is one test of the suite.
type suiteTest struct {
	name string
	run  func(t *testing.T, w World)
}

func suite() []suiteTest {
	return []suiteTest{
		{"GreetMapsTheAddress", testGreetMaps},
		{"MismatchIsRefusedOnBothSides", testMismatches},
		{"OwnAddressIsRefused", testSelf},
		{"AdmitRefuses", testAdmit},
		{"OtherSeedsAreAWarning", testSeedsDiffer},
		{"CloseFreesTheAddress", testCloseFreesAddress},
		{"FramesArriveInOrder", testOrder},
		{"CustomNeverDelaysSystem", testKindsApart},
		{"BackpressureBlocksSend", testBackpressure},
		{"TooLargeIsRefusedAtTheSender", testTooLarge},
		{"NotifyNeverBlocks", testNotifyNeverBlocks},
		{"SendWithoutConnection", testSendUnreachable},
		{"CloseFlushes", testCloseFlushes},
		{"CloseReleasesSend", testCloseReleasesSend},
		{"PeersFormQuickly", testFormation},
		{"CrossingDialsLeaveOne", testCrossing},
		{"CrossingUnderLoadLosesNothing", testCrossingUnderLoad},
		{"LaterRunReplaces", testRestart},
		{"WhoLeavesRefusesNobody", testLeavingIsNoRefusal},
		{"EarlierRunIsRefused", testEarlierRun},
		{"RedialsUntilThePeerIsThere", testRedial},
		{"LatePeerIsReachedSoon", testLatePeer},
		{"CutConnectionComesBack", testCut},
		{"PeerThatDoesNotReadIsClosed", testStuckPeer},
		{"GarbageClosesTheConnection", testGarbage},
		{"FramesThatStandStillTimeOut", testFramesStandStill},
		{"StrangersShareRoom", testStrangersShareRoom},
		{"MuteDialersAreClosed", testMuteDialers},
		{"PeersAreBounded", testPeersBounded},
		{"StreamsCarryBothWays", testStreamsCarry},
		{"HalfOfAStreamCloses", testHalfClose},
		{"ClosedStreamIsNoEnd", testStreamClose},
		{"HandlerReturnsAndItsStreamCloses", testStreamHandlerReturns},
		{"UnreadStreamsStopNobody", testUnreadStreams},
		{"EventsAndStreamsShare", testEventsAndStreams},
		{"TooManyStreams", testTooManyStreams},
		{"StreamsOfCrossingDialsCome", testStreamsCrossing},
		{"StreamsEndWithTheConnection", testStreamsCut},
		{"CloseEndsStreams", testCloseEndsStreams},
		{"StreamWithoutConnection", testStreamUnreachable},
		{"HeadsAreBounded", testHeads},
		{"BadHeadsResetTheirStream", testBadHeads},
		{"DatagramsArrive", testDatagrams},
		{"DatagramsDelayNobody", testDatagramFlood},
		{"SlowReceiverLosesDatagrams", testDatagramsSlow},
		{"NothingBeforeAdmission", testBeforeAdmission},
	}
}
