// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// World is a network of nodes that can reach each other, in which a test can inject faults.
// Each test makes its own World in its bubble.
type World interface {
	// Listen opens the network of the node at an address. If it cannot, it fails the test.
	Listen(t testing.TB, at member.Address) transport.Network
	// Cut drops everything that one node sends to another, without an error; Heal undoes
	// it.
	Cut(from, to member.Address)
	Heal(from, to member.Address)
	// Kill stops a node as if its process had ended; its address is free again.
	Kill(at member.Address)
	// Delay is the one-way delay between two nodes. If it is not 0, connections of nodes
	// that dial each other simultaneously must cross.
	Delay() time.Duration
	// Close stops the goroutines of the world.
	Close()
}

// Run runs the suite, each test in its own world.
func Run(t *testing.T, newWorld func(t testing.TB) World) {
	for _, test := range slices.Concat(suite(), claimTests()) {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				// Cleanups run in reverse order, so the nodes are closed first.
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

// eventually waits until a condition holds. It measures time by the clock of the bubble.
func eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	start := time.Now()
	for !is() {
		if time.Since(start) > within {
			t.Fatalf("after %v, this is still not true: %s", within, what)
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
		{"OtherSeedsAreAWarning", testSeedsDiffer},
		{"CloseFreesTheAddress", testCloseFreesAddress},
		{"FramesArriveInOrder", testOrder},
		{"RestartWhileBlocked", testRestartWhileBlocked},
		{"CustomNeverDelaysSystem", testKindsApart},
		{"BackpressureBlocksSend", testBackpressure},
		{"StuckPeer", testStuck},
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
		{"MuteDialersLeaveRoom", testMuteDialersLeaveRoom},
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
		{"ObserversExchangeFrames", testObservers},
		{"ObserversAreNoMembers", testObserversAreNoMembers},
		{"ObserversAboveTheLimit", testObserversFull},
		{"StuckObserverIsDisconnected", testStuckObserver},
	}
}

func claimTests() []suiteTest {
	return []suiteTest{
		{"StoresAreProved", testProof},
		{"ClaimOfAMemberIsRefused", testClaim},
		{"ClaimOfAnAbsentMemberIsRefused", testClaimOfAbsent},
		{"ProcessAtTheAddressIsBelieved", testClaimWithoutMember},
		{"MemberThatCannotBeDialedIsNamed", testOneWay},
		{"AddressThatLeadsBackIsRefused", testClaimLeadsBack},
		{"StrangersMeet", testMeet},
		{"OnlyOtherSourcesAreProbed", testProbes},
		{"AnotherStoreReturns", testLostStore},
		{"GreetingAloneTakesNoRoom", testGreetAlone},
	}
}
