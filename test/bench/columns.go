// SPDX-License-Identifier: Apache-2.0

package bench

// Column describes a field of the rows of a measurement.
type Column struct{ Name, Means string }

// Columns lists first the columns that identify a row, then those for which a table is
// printed.
func (m Measurement) Columns() []Column { return columns[m.Name] }

// Descriptions of columns that several measurements share.
const (
	hasBytes   = "bytes of payload"
	hasCPU     = "CPU time of all nodes involved, in seconds per million"
	hasHow     = "cause of death: kill (SIGKILL), or stop (SIGSTOP, like a host that hangs)"
	hasMB      = "payload received, in MB per second"
	hasNodes   = "nodes of the cluster"
	hasWorkers = "concurrent senders; each sends again as soon as its last send was accepted"
)

// columns lists the columns of each measurement: first those that identify a row, then
// those for which a table is printed.
var columns = map[string][]Column{
	"failover": {
		{"n", hasNodes},
		{"how", hasHow},
		{"ms", "from the death of the leader until all other nodes see a new one with authority"},
	},
	"formation": {
		{"n", hasNodes},
		{"ms", "from the start of the processes until each sees all nodes active under a leader"},
		{"cpu_ms", "CPU time of all nodes in that time"},
	},
	"detection": {
		{"n", hasNodes},
		{"how", hasHow},
		{"ms", "from the death of a follower until no other node sees it as active"},
	},
	"oneway": {
		{"n", hasNodes},
		{"bytes", hasBytes},
		{"workers", hasWorkers},
		{"msgs_s", "events handled per second"},
		{"mb_s", hasMB},
		{"cpu_s_per_million", hasCPU},
		{"allocs_per_msg", "allocations of sender and receiver per event"},
	},
	"broadcast": {
		{"n", hasNodes},
		{"bytes", hasBytes},
		{"workers", hasWorkers},
		{"msgs_s", "broadcasts per second that all other nodes handled"},
		{"mb_s", "payload of those broadcasts, each counted once, in MB per second"},
		{"cpu_s_per_million", hasCPU},
		{"allocs_per_msg", "allocations of all nodes per broadcast"},
	},
	"request": {
		{"n", hasNodes},
		{"bytes", hasBytes},
		{"workers", hasWorkers},
		{"calls_s", "requests answered per second"},
		{"p50_us", "microseconds from call to return, median"},
		{"p99_us", "microseconds from call to return, 99th percentile"},
		{"cpu_s_per_million", hasCPU},
		{"allocs_per_call", "allocations of both nodes per request"},
	},
	"stream": {
		{"n", hasNodes},
		{"bytes", "bytes of each write"},
		{"workers", "concurrent streams, each with a goroutine that writes"},
		{"mb_s", "data read, in MB per second"},
		{"cpu_s_per_gb", "CPU time of both nodes, in seconds per GB"},
		{"allocs_per_mb", "allocations of both nodes per MB"},
	},
	"jobs": {
		{"n", "nodes of the cluster, each of which opens all jobs"},
		{"jobs", "number of jobs"},
		{"ms", "from opening the jobs until every node sees a leader of each"},
		{"commits_per_job", "commits requested by all nodes per job; at least 1"},
	},
	"holder": {
		{"n", "nodes of the cluster, all of them candidates"},
		{"how", "kill: SIGKILL for the holder; cut: it is isolated, but alive"},
		{"leads", "what that node held: a job, lock or semaphore, and whether it also led the cluster"},
		{"ms", "from kill or cut until another node holds it"},
		{"gap_ms",
			"from the end of the old leadership to the start of the new one; for kill, the same as ms"},
	},
	"locks": {
		{"n", hasNodes},
		{"clients", "goroutines on all nodes together, each acquiring and dropping its own record"},
		{"locks_s", "records acquired and dropped per second, on all nodes together"},
		{"p50_us", "microseconds to acquire and drop a record on one node, median"},
		{"p99_us", "microseconds to acquire and drop a record on one node, 99th percentile"},
	},
	"shards": {
		{"n", hasNodes},
		{"shards", "number of shards"},
		{"what", "start: all nodes begin; kill: one is killed; restart: it is started again"},
		{"ms", "from then until each node owns its share, at most one shard more than any other"},
		{"moves", "shards that changed their owner"},
		{"needed", "the least number of moves to such shares"},
	},
	"group": {
		{"n", hasNodes},
		{"what", "take-over: the leader is killed; heal: two partitions, each with a leader, merge"},
		{"ms", "from then until all live nodes follow the same leader, with the times of Lowest " +
			"set to a fifth of their defaults"},
	},
	"idle": {
		{"n", hasNodes},
		{"role", "leader, follower, or the mean of all nodes"},
		{"cpu_percent", "CPU time of a node, as a percentage of one CPU"},
		{"rss_mib", "memory of a node, in MiB"},
	},
}
