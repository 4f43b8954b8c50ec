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

// drillResult is the answer of a drill. Times begin when the command started.
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
		Use:   "drill [--member NAME] -- COMMAND [ARGUMENT...]",
		Short: "kill a member on purpose, and measure the failover",
		Long: "drill checks that every member is active and that one can be spared, asks for\n" +
			"confirmation, and runs COMMAND, which must kill the process of the member: by default\n" +
			"the leader. It asks another member, --admin, about every 10 ms who leads. It prints the\n" +
			"time from the start of COMMAND until a leader was elected, or, if a follower was killed,\n" +
			"the time without a leader; then the time until the member was back.",
		Example: "  athena drill --admin n2:7070 -- ssh n1 systemctl kill -s KILL athena\n" +
			"  athena drill --member n3 --yes -- kubectl delete pod n3 --now",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("COMMAND is missing: it must kill the process of the member")
			}
			return nil
		},
		Ask: func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
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
	f.StringVar(&d.member, "member", "", "name or address of the member (default the leader)")
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
	kill := exec.CommandContext(ctx, args[0], args[1:]...)
	kill.Stdout, kill.Stderr = os.Stderr, os.Stderr
	start := time.Now()
	if err := kill.Start(); err != nil {
		return ask.Reply{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- kill.Wait() }()
	w := drillWatch{before: s, target: target}
	for !w.isOver() && time.Since(start) < d.patience {
		select {
		case err := <-ended:
			if err != nil {
				return ask.Reply{}, fmt.Errorf("%s: %w", args[0], err)
			}
			ended = nil
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

// drillWatch follows a cluster during a drill. Times are measured from the start of the command,
// and are 0 until the event.
type drillWatch struct {
	before     adminapi.Status
	target     adminapi.Member
	seen       time.Duration // the last observation
	noticed    time.Duration // the target was not active, or ran again
	led        time.Duration // a leader was elected
	leaderless time.Duration // total time without a leader
	back       time.Duration
	resolution time.Duration // longest time between two observations
	leader     adminapi.Leader
}

func (w *drillWatch) isOver() bool { return w.back > 0 && (w.led > 0 || !w.killsLeader()) }

func (w *drillWatch) killsLeader() bool { return w.target.Address == w.before.View.Leader }

func (w *drillWatch) observe(s adminapi.Status, at time.Duration) {
	step := at - w.seen
	w.seen, w.resolution = at, max(w.resolution, step)
	leader, ok := s.LeaderOf()
	if ok && leader.Version > w.before.View.Version && w.led == 0 {
		w.led = at
	}
	if w.leader = leader; !ok {
		w.leaderless += step
	}
	var now adminapi.Member
	for _, m := range s.View.Members {
		if m.Address == w.target.Address {
			now = m
		}
	}
	again := now.Incarnation > w.target.Incarnation
	if w.noticed == 0 && (again || now.Status != member.Active) {
		w.noticed = at
	}
	if w.back == 0 && again && now.Status == member.Active {
		w.back = at
	}
}

// judge returns the result, and why the drill failed, if it did.
func (w *drillWatch) judge(most, patience time.Duration) (ask.Reply, error) {
	r := drillResult{
		Member: w.target.Name, Leader: w.leader.Name, NoticedMS: adminapi.Milliseconds(w.noticed),
		BackMS:       adminapi.Milliseconds(w.back),
		ResolutionMS: adminapi.Milliseconds(w.resolution),
	}
	without := w.leaderless
	if w.killsLeader() {
		without = w.led
	}
	r.LeaderlessMS = adminapi.Milliseconds(without)
	reply := ask.Reply{Answer: r, Table: func(out io.Writer) {
		fmt.Fprintln(out, "KILLED\tLEADER\tLEADERLESS\tNOTICED\tBACK\tRESOLUTION")
		fmt.Fprintf(out, "%s\t%s\t%v\t%v\t%v\t%v\n", r.Member, cmp.Or(r.Leader, "-"), inMS(without),
			inMS(w.noticed), inMS(w.back), inMS(w.resolution))
	}}
	switch {
	case w.noticed == 0:
		reply.Failed = fmt.Errorf("%s did not stop: check the command", r.Member)
	case w.killsLeader() && w.led == 0:
		reply.Failed = fmt.Errorf("no leader was elected within %v", patience)
	case without > most:
		reply.Failed = fmt.Errorf("%v without a leader, more than %v", inMS(without), most)
	case w.back == 0:
		reply.Note = fmt.Sprintf("%s did not return within %v: start it again", r.Member, patience)
	}
	return reply, nil
}

func inMS(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
