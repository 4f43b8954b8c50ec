// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
)

// securityRules are the rules behind SECURITY.md and docs/security.md, with the tests that fail if
// a rule is broken.
var securityRules = []struct {
	rule  string
	tests []string
}{
	{"TLS 1.3, both sides verified by own authorities; no passwords", []string{
		"TestPasswordsAreRefused", "TestRandomSecretsAreAccepted", "TestSecretsAreChecked",
		"TestSecretDecides", "TestOtherSecretIsRefused", "TestNoCertificate",
		"TestCertificateOfAnotherKey",
		"TestCertificatesThatNobodyAccepts",
	}},
	{"A certificate is valid for one member", []string{
		"TestCertificateOfAnotherMember", "TestImpostorsEndNoStart", "TestValidateReadsCertificates",
	}},
	{"The greet compares protocol, cluster, size and timings before anything else", []string{
		"TestAnotherProgramIsNoNode", "TestCheckGreetRefusesEachDifference",
		"TestNetwork/MismatchIsRefusedOnBothSides", "TestNetwork/NothingBeforeAdmission",
	}},
	{"Only a process that has the store of a member speaks for it", []string{
		"TestOnlyTheStoreProvesItself", "TestNetwork/StoresAreProved",
		"TestNetwork/ClaimOfAMemberIsRefused", "TestNetwork/ClaimOfAnAbsentMemberIsRefused",
		"TestNetwork/GreetingAloneTakesNoRoom", "TestIntruders", "TestMembersReturnDespiteClaims",
		"TestMistypedAddresses", "TestProcessMistypedAddress", "TestReadableByOthers",
		"TestGreetingsOfOthersEndNoStart",
	}},
	{"No session resumption, no 0-RTT", []string{
		"TestNothingIsResumed", "TestWhatAPeerMayTake",
	}},
	{"Replays are refused: of packets, greets and earlier runs", []string{
		"TestReplayedPackets", "TestReplayedGreet", "TestNetwork/EarlierRunIsRefused",
		"TestRefusals",
	}},
	{"Handshakes are bounded in total and by host", []string{
		"TestHalfOpenHandshakes", "TestHandshakesAreBounded", "TestOneHostLeavesRoomForOthers",
		"TestSpoofedAndOneHostLeaveRoom", "TestNoise",
	}},
	{"Connections, streams, windows and greets are bounded", []string{
		"TestWhatAPeerMayTake", "TestNetwork/PeersAreBounded", "TestNetwork/MuteDialersAreClosed",
		"TestNetwork/UnreadStreamsStopNobody", "TestNetwork/TooManyStreams",
		"TestFewConnectionsAreLeftAtOnce", "TestHostilePeersTakeBoundedMemory",
		"TestNetwork/StrangersShareRoom", "TestMembersDoNotWaitBehindStrangers",
		"TestNetwork/FramesThatStandStillTimeOut",
		"TestNetwork/BadHeadsResetTheirStream",
	}},
	{"Certificates are replaced while running; connections end with them", []string{
		"TestDamagedFiles", "TestCertificateNotRenewed", "TestANewCertificateEndsNoConnection",
		"TestConnectionsEndWithTheCertificate", "TestCertificatesAreRenewed",
		"TestCertificateIsRenewed", "TestSecretsRotate", "TestWholeStackWithCertificates",
		"TestMetricsAreDocumented",
	}},
	{"The reset key is the node's own and stays", []string{
		"TestResetKeyStays", "TestKeyReadableByOthersIsRefused", "TestDeriveResetKey",
		"TestKeepAlivesArePadded",
	}},
	{"Length and structure are checked before decoding", []string{
		"TestScanRefuses", "TestDecodeRefusesCheaply", "TestRangesAreChecked",
		"TestLengthAboveTheLimitIsGarbage", "TestDeclaredLengthAllocatesLittle", "FuzzDecode",
	}},
	{"The first frame that does not decode closes its connection", []string{
		"TestNetwork/GarbageClosesTheConnection", "TestHostileFramesCloseTheConnection",
	}},
	{"Handlers get their own types through bounded queues", []string{
		"TestFullLaneHoldsItsSenderAndNobodyElse", "TestFewLargeEventsWaitForTheLoop",
		"TestQueueBytesBoundAQueue", "TestDecodingThatPanicsIsMalformed",
		"TestScanBoundsTheNumberOfValues",
	}},
	{"An address returns only with a later run", []string{
		"TestRefusals", "TestNetwork/EarlierRunIsRefused",
	}},
	{"Only the leader's connection speaks for the leader", []string{
		"TestForgedLeaderMessages", "TestBadFramesAreDroppedAndCounted",
	}},
	{"The admin API is off, local, or restricted; acts only if allowed; bounds callers", []string{
		"TestContract", "TestListenRefuses", "TestSocket", "TestHost", "TestToken",
		"TestReadTokenRefuses", "TestActsRefused", "TestStreamOfAnotherSite", "TestWrongRequests",
		"TestSlowCallers", "TestManyConnections", "TestConnectionsOfOneHost",
		"TestManyLocks", "TestLockOfDeadCaller", "TestUserTimeout",
		"TestClientCertificates", "TestCertificateAndToken", "TestAuthorityRemoved",
		"TestSlowHandshake", "TestProcessAdminTLS", "TestAudit", "TestAuditOfSocket",
		"TestAuditOfHostileCaller", "TestForwardRefused", "TestProcessForward",
	}},
	{"Logs hold no secrets; peers' text is printable, cut and bounded", []string{
		"TestLogsHoldNoSecret", "TestForeignTextIsPrintableAndCut", "TestPeerTextCannotForgeALine",
		"TestLogsAreDocumented", "TestReportsOfStrangersAreBounded", "TestNoPeerFillsTheLog",
	}},
	{"Store files belong to the directory's owner; links are refused", []string{
		"TestNewStore", "TestWritableByOthersIsRefused", "TestKeyReadableByOthersIsRefused",
		"TestPrivateFiles", "TestPlantedLinksAreRefused", "TestForeignFilesAreRefused",
		"TestRootLeavesAllFilesToTheOwner", "TestReplacedDirectory",
		"TestDirectoryOfAnotherOwnerIsRefused", "TestPipeIsNoDirectory", "TestLockOfAnotherUser",
	}},
	{"Insecure must be stated, on loopback only, and is reported", []string{
		"TestValidateWantsASecretBeyondLoopback", "TestRunUsage",
		"TestInsecureNodesRefuseSecureOnes", "TestInsecureCausesWarning", "TestMetricsAfterFailover",
	}},
	{"Each module has a reason; releases list their contents", []string{
		"TestArchitecture", "TestProcessReleaseIsReproducible",
	}},
}

// TestSecurityRules checks that every test of securityRules exists.
func TestSecurityRules(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	exists := testsOf(tree)
	for _, r := range securityRules {
		if len(r.tests) == 0 {
			t.Errorf("no test holds the rule %q", r.rule)
		}
		for _, name := range r.tests {
			if !exists[name] {
				t.Errorf("the rule %q names %s, but there is no such test", r.rule, name)
			}
		}
	}
}

// suites are the functions that list the tests of transporttest.
var suites = []string{"suite", "claimTests"}

// testsOf lists the tests and fuzz targets of the module. It includes the cases of the suite that
// every transport passes, as TestNetwork/NAME.
func testsOf(tree *sourceTree) map[string]bool {
	all := map[string]bool{}
	for _, p := range tree.packages {
		for _, f := range p.files {
			for _, d := range f.syntax.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv != nil {
					continue
				}
				if f.isTest() {
					all[fn.Name.Name] = true
				}
				if p.path != "test/transporttest" || !slices.Contains(suites, fn.Name.Name) {
					continue
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					if s, ok := n.(*ast.BasicLit); ok {
						all["TestNetwork/"+strings.Trim(s.Value, `"`)] = true
					}
					return true
				})
			}
		}
	}
	return all
}
