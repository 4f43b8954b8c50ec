// SPDX-License-Identifier: Apache-2.0

// athena drill: kill a member on purpose, and measure how the cluster bears it.

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
)

// drill is the request of one drill.
type drill struct {
	member        string
	yes           bool
	max, patience time.Duration
}

// killGrace is the time that a killed member has to end or to leave, once the command has ended.
const killGrace = 2 * time.Second

// drillResult is the answer of a drill. NoticedMS and BackMS begin when the command started.
type drillResult struct {
	Member       string  `json:"member"`
	Leader       string  `json:"leader"`
	LeaderlessMS float64 `json:"leaderless_ms"`
	NoticedMS    float64 `json:"noticed_ms"`
	BackMS       float64 `json:"back_ms"` // 0 if the member did not return
	ResolutionMS float64 `json:"resolution_ms"`
}

func newDrill() *cobra.Command {
	var d drill
	var cmd *cobra.Command
	cmd = ask.NewCommand(ask.Verb{
		Use:   "drill [MEMBER] -- COMMAND [ARGUMENT...]",
		Short: "kill a member on purpose, and measure the failover",
		Long: "drill checks that every member is active and that one can be spared, asks for\n" +
			"confirmation, and runs COMMAND, which must kill the process of MEMBER: by default\n" +
			"the leader. It asks another member, --admin, about every 10 ms who leads, and prints the\n" +
			"time without a leader: from the last sign of a leader with authority to the next one;\n" +
			"then the time until the member was back. If the member still answers 2 s after COMMAND\n" +
			"ended, in the same run, drill fails and prints no times.",
		Example: "  athena drill --admin n2:7070 -- ssh n1 systemctl kill -s KILL athena\n" +
			"  athena drill n3 --yes -- kubectl delete pod n3 --now",
		Args: func(cmd *cobra.Command, args []string) error {
			target := args[:max(cmd.ArgsLenAtDash(), 0)]
			if len(args) == len(target) {
				return errors.New("COMMAND is missing: it must kill the process of the member")
			}
			return checkTarget(target, "member", d.member)
		},
		Ask: func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
			if dash := cmd.ArgsLenAtDash(); dash > 0 {
				d.member, args = args[0], args[dash:]
			}
			s, err := c.Status(ctx)
			if err != nil {
				return ask.Reply{}, err
			}
			target, err := d.findTarget(s)
			if err != nil {
				return ask.Reply{}, err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s (%s) of cluster %s will be killed by: %s\n",
				target.Name, target.Address, s.Cluster, strings.Join(args, " "))
			if !d.yes && !confirms(cmd.InOrStdin(), cmd.ErrOrStderr()) {
				return ask.Reply{}, errors.New("nothing was done: answer yes, or add --yes")
			}
			return d.run(ctx, c, s, target, args)
		},
	})
	f := cmd.Flags()
	f.StringVar(&d.member, "member", "", "same as MEMBER (default the leader)")
	f.DurationVar(&d.max, "max-leaderless", 2*time.Second, "longest time without a leader that passes")
	f.DurationVar(&d.patience, "back-within", time.Minute, "how long to wait until the member is back")
	f.BoolVar(&d.yes, "yes", false, "do not ask for confirmation")
	return cmd
}

// findTarget returns the member to kill, or the reason why the cluster must be left alone.
func (d drill) findTarget(s adminapi.Status) (adminapi.Member, error) {
	leader, led := s.LeaderOf()
	want := cmp.Or(d.member, leader.Address.String())
	var found []adminapi.Member
	for _, m := range s.View.Members {
		if m.Status != member.Active && m.Status != member.Removed {
			return m, fmt.Errorf("%s is %v: drill only a healthy cluster", m.Name, m.Status)
		}
		if m.Name == want || m.Address.String() == want {
			found = append(found, m)
		}
	}
	switch {
	case !led:
		return adminapi.Member{}, errors.New("no leader: drill only a healthy cluster")
	case s.Active() <= s.Quorum:
		return adminapi.Member{}, fmt.Errorf("%d members are active and %d are needed: "+
			"none can be spared", s.Active(), s.Quorum)
	case len(found) != 1 || found[0].Status != member.Active:
		return adminapi.Member{}, fmt.Errorf("%q names %d active members", want, len(found))
	case found[0].Address == s.Self.Address:
		return found[0], errors.New("this node would be killed: give the --admin of another member")
	}
	return found[0], nil
}

func confirms(in io.Reader, out io.Writer) bool {
	fmt.Fprint(out, "Type yes to continue: ")
	line, _ := bufio.NewReader(in).ReadString('\n')
	return strings.TrimSpace(line) == "yes"
}

// run kills the target and watches the cluster until the target is back.
func (d drill) run(
	ctx context.Context, c *adminclient.Client, s adminapi.Status, target adminapi.Member,
	args []string,
) (ask.Reply, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	kill := exec.CommandContext(ctx, args[0], args[1:]...)
	kill.Stdout, kill.Stderr = os.Stderr, os.Stderr
	start := time.Now()
	if err := kill.Start(); err != nil {
		return ask.Reply{}, err
	}
	ended, alive := make(chan error, 1), make(chan bool)
	go func() { ended <- kill.Wait() }()
	w := newDrillWatch(s, target)
	for !w.isOver() && time.Since(start) < d.patience {
		select {
		case err := <-ended:
			if err != nil {
				return ask.Reply{}, fmt.Errorf("%s: %w", args[0], err)
			}
			ended = nil
			go askTarget(watching, c, target, alive)
		case <-alive:
			if !w.isKilled() {
				return ask.Reply{}, w.notKilled()
			}
		case <-ctx.Done():
			return ask.Reply{}, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
		if now, err := c.Status(ctx); err == nil { // a missed observation makes the resolution worse
			w.observe(now, time.Since(start))
		}
	}
	return w.judge(d.max, d.patience)
}

// askTarget asks the target for its status every killGrace until ctx is done, and sends a value to
// alive each time that the process which the command had to kill answers.
func askTarget(
	ctx context.Context, c *adminclient.Client, target adminapi.Member, alive chan<- bool,
) {
	for {
		select {
		case <-time.After(killGrace):
		case <-ctx.Done():
			return
		}
		s, err := c.NodeStatus(ctx, target.Name)
		if err != nil || s.Self.Address != target.Address ||
			s.Self.Incarnation != target.Incarnation {
			continue
		}
		select {
		case alive <- true:
		case <-ctx.Done():
			return
		}
	}
}

// drillWatch follows a cluster during a drill. Times are measured from the start of the command,
// and are 0 until the event.
type drillWatch struct {
	target     adminapi.Member
	seen       time.Duration // the last observation
	noticed    time.Duration // the target was not active, or ran again
	back       time.Duration
	resolution time.Duration // longest time between two observations
	leader     adminapi.Leader
	quorate    bool          // the last observation has a leader with authority
	led        time.Duration // the last observation with one
	leaderless time.Duration // total time without one before led
}

func newDrillWatch(s adminapi.Status, target adminapi.Member) *drillWatch {
	w := &drillWatch{target: target}
	w.leader, w.quorate = s.LeaderOf()
	return w
}

// isKilled reports whether the target is down or was restarted, as far as the observer knows.
func (w *drillWatch) isKilled() bool { return w.noticed > 0 }

func (w *drillWatch) isOver() bool { return w.back > 0 && w.quorate }

func (w *drillWatch) observe(s adminapi.Status, at time.Duration) {
	w.resolution = max(w.resolution, at-w.seen)
	w.seen = at
	w.observeLeader(s, at)
	var now adminapi.Member
	for _, m := range s.View.Members {
		if m.Address == w.target.Address {
			now = m
		}
	}
	again := now.Incarnation > w.target.Incarnation
	switch active := now.Status == member.Active; {
	case active && !again:
		w.noticed = 0 // it runs; it was only slow, or cut off from the others
	case w.noticed == 0:
		w.noticed = at
	}
	if w.back == 0 && again && now.Status == member.Active {
		w.back = at
	}
}

// observeLeader adds the time without a leader, from the last sign of one to the next leader. That
// sign is an observation or, if it is earlier, the leader's last word to the follower that answers:
// until it misses the leader, a follower shows a leader that is gone.
func (w *drillWatch) observeLeader(s adminapi.Status, at time.Duration) {
	leader, ok := s.LeaderOf()
	isNext := ok && leader.Version != w.leader.Version
	if ok && (isNext || !w.quorate) {
		gap := at - w.led
		if e := s.LastElection; isNext && e != nil && e.Version == leader.Version {
			gap = max(gap, silenceBefore(*e))
		}
		w.leaderless += gap
	}
	if w.quorate = ok; ok {
		w.leader, w.led = leader, at
	}
}

// silenceBefore returns the time from the last word of the former leader to the authority of the
// next one. It is 0 if the node that saw the election followed no leader before, or noticed the end
// of its authority before its silence.
func silenceBefore(e adminapi.Election) time.Duration {
	heard := slices.IndexFunc(e.Steps, func(s adminapi.Step) bool { return s.Name == "heard" })
	quorate := slices.IndexFunc(e.Steps, func(s adminapi.Step) bool { return s.Name == "quorate" })
	if heard < 0 || quorate < 0 {
		return 0
	}
	return adminapi.DurationOf(e.Steps[quorate].AfterMS - e.Steps[heard].AfterMS)
}

// notKilled returns the error of a command that did not kill the target.
func (w *drillWatch) notKilled() error {
	return fmt.Errorf("%s did not stop: check the command", w.target.Name)
}

// judge returns the result, and why the drill failed, if it did.
func (w *drillWatch) judge(most, patience time.Duration) (ask.Reply, error) {
	if !w.isKilled() {
		return ask.Reply{}, w.notKilled()
	}
	without := w.leaderless
	r := drillResult{
		Member: w.target.Name, NoticedMS: adminapi.Milliseconds(w.noticed),
		BackMS: adminapi.Milliseconds(w.back), ResolutionMS: adminapi.Milliseconds(w.resolution),
	}
	if w.quorate {
		r.Leader = w.leader.Name
	} else {
		without += w.seen - w.led
	}
	r.LeaderlessMS = adminapi.Milliseconds(without)
	reply := ask.Reply{Answer: r, Table: func(out io.Writer) {
		fmt.Fprintln(out, "KILLED\tLEADER\tLEADERLESS\tNOTICED\tBACK\tRESOLUTION")
		fmt.Fprintf(out, "%s\t%s\t%v\t%v\t%v\t%v\n", r.Member, cmp.Or(r.Leader, "-"), inMS(without),
			inMS(w.noticed), inMS(w.back), inMS(w.resolution))
	}}
	switch {
	case !w.quorate:
		reply.Failed = fmt.Errorf("no leader was elected within %v", patience)
	case without > most:
		reply.Failed = fmt.Errorf("%v without a leader, more than %v", inMS(without), most)
	case w.back == 0:
		reply.Note = fmt.Sprintf("%s did not return within %v: start it again", r.Member, patience)
	}
	return reply, nil
}

func inMS(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
