// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Where threads spend their time: on a processor, waiting (by stack), and runnable but not running. And how long requests to some
 * devices, and commits of the journals on them, take.
 *
 * The programs about threads run with interrupts off, so that none interrupts another on its processor and `scratch` has one user.
 */
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* Of the kernel's include/uapi/linux/bpf.h. */
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6 };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define RELOCATED __attribute__((preserve_access_index))
struct ns_common {
	unsigned int inum;
} RELOCATED;
struct pid_namespace {
	struct ns_common ns;
	struct pid_namespace *parent;
} RELOCATED;
struct nsproxy {
	struct pid_namespace *pid_ns_for_children;
} RELOCATED;
struct task_struct {
	unsigned int flags;
	unsigned int __state;
	int pid;
	char comm[16];
	struct nsproxy *nsproxy;
} RELOCATED;
/* Before Linux 5.14. */
struct task_struct___old {
	long state;
} RELOCATED;

struct block_device {
	__u32 bd_dev;
} RELOCATED;
struct gendisk {
	int major, first_minor;
} RELOCATED;
struct request_queue {
	struct gendisk *disk;
} RELOCATED;
struct request {
	struct request_queue *q;
	__u32 cmd_flags, __data_len;
	__u64 start_time_ns, __sector;
	/* Of the phases of a flush and its write, and of requests that are not a filesystem's. */
	void *end_io;
} RELOCATED;
struct journal_s {
	struct block_device *j_fs_dev;
} RELOCATED;
enum req_flag_bits { __REQ_FUA = 1 };

/* Of include/linux/blk_types.h. */
#define REQ_OP_MASK 0xff
#define REQ_OP_WRITE 1
#define SECTOR 512

#define PF_KTHREAD 0x00200000
#define TASK_DEAD 0x00000080
#define FRAMES 40
/* Namespaces above a thread's own: a server's programs have one inside of the worker's. */
#define NESTED 4

/* Threads in this namespace and those below it are observed. */
const volatile __u32 pid_namespace = 0;

/* Requests to these devices are timed; 0 is none. */
#define DEVICES 8
const volatile __u32 devices[DEVICES] = {};

/* Nanoseconds of CLOCK_MONOTONIC between which time counts. */
struct window {
	__u64 from, to;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct window);
} window SEC(".maps");

enum { RUNNING, WAITING, RUNNABLE };
struct thread {
	__u64 since, state, processor, frames[FRAMES];
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

/* As in lib.rs. */
enum kind { RUNS, WAITS, QUEUES, PREEMPTED, SAMPLED, MIGRATED, OF_OTHERS = 8 };
struct group {
	__u64 kind;
	char name[16];
};
struct key {
	struct group group;
	__u64 frames[FRAMES];
};
struct amount {
	__u64 time, count;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct key);
	__type(value, struct amount);
} amounts SEC(".maps");
/* Amounts without frames: a short key is looked up much faster. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct group);
	__type(value, struct amount);
} totals SEC(".maps");
/* The innermost address of a sample is any instruction: they have a table of their own, which may fill up without loss of time. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct key);
	__type(value, struct amount);
} samples SEC(".maps");

struct processor {
	__u64 switched, lost;
	struct key scratch;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct processor);
} processors SEC(".maps");

/* Phases of requests and of commits, as in lib.rs. */
enum event { IN_QUEUE, AT_DEVICE, WRITTEN, MOVED, FORCED, BUSY, LOCKING, FLUSHING, LOGGING, EVENTS };
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, EVENTS);
	__type(key, __u32);
	__type(value, struct amount);
} events SEC(".maps");
/* Requests at the devices, and since when there is one. Two processors that change it in the same moment may lose a time of theirs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct amount);
} in_flight SEC(".maps");
/* The sector behind the last request that a device was sent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DEVICES);
	__type(key, __u32);
	__type(value, __u64);
} last_sectors SEC(".maps");
/* The beginning of the phase that a request or a journal is in, by its address. */
struct phase {
	__u64 since, event;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct phase);
} phases SEC(".maps");

static __always_inline struct processor *this_processor(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&processors, &zero);
}

static __always_inline int is_observed(struct task_struct *task)
{
	struct nsproxy *proxy = BPF_CORE_READ(task, nsproxy);
	if (!proxy || (BPF_CORE_READ(task, flags) & PF_KTHREAD) || !BPF_CORE_READ(task, pid))
		return 0;
	struct pid_namespace *namespace = BPF_CORE_READ(proxy, pid_ns_for_children);
	for (int level = 0; level < NESTED && namespace; level++) {
		if (BPF_CORE_READ(namespace, ns.inum) == pid_namespace)
			return 1;
		namespace = BPF_CORE_READ(namespace, parent);
	}
	return 0;
}

/* Threads of a group have one name: that of observed threads ends with `-`, that of others with `/`. */
static __always_inline void name_group(char *name, char end)
{
	int is_over = 0;
	for (int i = 0; i < 16; i++) {
		if (is_over)
			name[i] = 0;
		is_over |= name[i] == end;
	}
}

/* Leaves what is in the window; 0 if nothing is. */
static __always_inline int in_window(__u64 *from, __u64 *to)
{
	__u32 zero = 0;
	struct window *in = bpf_map_lookup_elem(&window, &zero);
	if (!in || *to < in->from || *from > in->to)
		return 0;
	*from = *from > in->from ? *from : in->from;
	*to = *to < in->to ? *to : in->to;
	return 1;
}

/* Adds what is in the window to the amount of the scratch key; of a wait or a sample its frames are set. */
static __always_inline void add(struct processor *processor, struct task_struct *task, __u64 kind, __u64 from, __u64 to)
{
	if (!in_window(&from, &to))
		return;
	struct key *key = &processor->scratch;
	key->group.kind = kind;
	BPF_CORE_READ_INTO(&key->group.name, task, comm);
	name_group(key->group.name, kind & OF_OTHERS ? '/' : '-');
	void *table = kind == SAMPLED ? (void *)&samples : kind == WAITS ? (void *)&amounts : (void *)&totals;
	struct amount *known = bpf_map_lookup_elem(table, key);
	if (!known) {
		struct amount none = {};
		bpf_map_update_elem(table, key, &none, BPF_NOEXIST);
		known = bpf_map_lookup_elem(table, key);
	}
	if (!known) {
		if (kind != SAMPLED)
			processor->lost++;
		return;
	}
	__sync_fetch_and_add(&known->time, to - from);
	__sync_fetch_and_add(&known->count, 1);
}

static __always_inline void clear(struct key *key)
{
	__builtin_memset(key->frames, 0, sizeof(key->frames));
}

static __always_inline struct thread *new_thread(__u32 pid)
{
	static const struct thread none;
	bpf_map_update_elem(&threads, &pid, &none, BPF_ANY);
	return bpf_map_lookup_elem(&threads, &pid);
}

SEC("tp_btf/sched_switch")
int sched_switch(__u64 *ctx)
{
	int is_preempted = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct processor *processor = this_processor();
	if (!processor)
		return 0;
	__u64 now = bpf_ktime_get_ns(), since = processor->switched;
	processor->switched = now;
	__u32 pid = BPF_CORE_READ(prev, pid);
	struct thread *thread = bpf_map_lookup_elem(&threads, &pid);
	/* A thread that ends has no namespace any more. */
	int was_observed = (thread && thread->state == RUNNING) || is_observed(prev);
	if (since && was_observed)
		add(processor, prev, RUNS, since, now);
	else if (since && pid)
		add(processor, prev, RUNS | OF_OTHERS, since, now);
	if (was_observed) {
		__u64 state = bpf_core_field_exists(prev->__state) ?
				      BPF_CORE_READ(prev, __state) :
				      BPF_CORE_READ((struct task_struct___old *)prev, state);
		if (!thread)
			thread = new_thread(pid);
		if (state & TASK_DEAD) {
			bpf_map_delete_elem(&threads, &pid);
		} else if (thread) {
			thread->since = now;
			thread->state = RUNNABLE;
			if (is_preempted || !state) {
				add(processor, prev, PREEMPTED, now, now);
			} else {
				thread->state = WAITING;
				__builtin_memset(thread->frames, 0, sizeof(thread->frames));
				bpf_get_stack(ctx, thread->frames, sizeof(thread->frames), 0);
			}
		} else {
			processor->lost++;
		}
	}
	if (is_observed(next)) {
		pid = BPF_CORE_READ(next, pid);
		thread = bpf_map_lookup_elem(&threads, &pid);
		if (!thread)
			thread = new_thread(pid);
		if (!thread) {
			processor->lost++;
			return 0;
		}
		if (thread->state == RUNNABLE) {
			add(processor, next, QUEUES, thread->since, now);
		} else if (thread->state == WAITING) {
			/* Its wakeup was not seen. */
			__builtin_memcpy(processor->scratch.frames, thread->frames, sizeof(thread->frames));
			add(processor, next, WAITS, thread->since, now);
		}
		__u64 here = bpf_get_smp_processor_id() + 1;
		if (thread->processor && thread->processor != here)
			add(processor, next, MIGRATED, now, now);
		thread->processor = here;
		thread->state = RUNNING;
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct processor *processor = this_processor();
	if (!processor || !is_observed(task))
		return 0;
	__u32 pid = BPF_CORE_READ(task, pid);
	struct thread *thread = bpf_map_lookup_elem(&threads, &pid);
	if (!thread || thread->state != WAITING)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__builtin_memcpy(processor->scratch.frames, thread->frames, sizeof(thread->frames));
	add(processor, task, WAITS, thread->since, now);
	thread->since = now;
	thread->state = RUNNABLE;
	return 0;
}

/* On the clock of each processor. In user mode there is no kernel stack, and the frames are empty. */
SEC("perf_event")
int sample(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct processor *processor = this_processor();
	if (!processor)
		return 0;
	if (!is_observed(task))
		return 0;
	clear(&processor->scratch);
	bpf_get_stack(ctx, processor->scratch.frames, sizeof(processor->scratch.frames), 0);
	__u64 now = bpf_ktime_get_ns();
	add(processor, task, SAMPLED, now, now);
	return 0;
}

static __always_inline void count_in(enum event event, __u64 added)
{
	__u32 index = event;
	struct amount *amount = bpf_map_lookup_elem(&events, &index);
	if (!amount)
		return;
	__sync_fetch_and_add(&amount->time, added);
	__sync_fetch_and_add(&amount->count, 1);
}

static __always_inline void count(enum event event, __u64 from, __u64 to)
{
	if (in_window(&from, &to))
		count_in(event, to - from);
}

static __always_inline void count_amount(enum event event, __u64 now, __u64 added)
{
	__u64 end = now;
	if (in_window(&now, &end))
		count_in(event, added);
}

/* Another request is at the devices, or one less. */
static __always_inline void change_in_flight(__s64 by, __u64 now)
{
	__u32 zero = 0;
	struct amount *amount = bpf_map_lookup_elem(&in_flight, &zero);
	if (!amount)
		return;
	__u64 before = __sync_fetch_and_add(&amount->count, by);
	if (by > 0 && before == 0)
		amount->time = now;
	else if (by < 0 && before == 1 && amount->time <= now)
		count(BUSY, amount->time, now);
}

static __always_inline int is_timed(__u32 device)
{
	for (int i = 0; i < DEVICES; i++)
		if (devices[i] && devices[i] == device)
			return 1;
	return 0;
}

/* The distance from the end of the request before it. */
static __always_inline void move(__u32 device, __u64 now, __u64 sector, __u32 bytes)
{
	__u64 end = sector + bytes / SECTOR, *last = bpf_map_lookup_elem(&last_sectors, &device);
	if (!last) {
		bpf_map_update_elem(&last_sectors, &device, &end, BPF_ANY);
		return;
	}
	count_amount(MOVED, now, (sector > *last ? sector - *last : *last - sector) * SECTOR);
	*last = end;
}

/* Since Linux 5.15: before, the disk is elsewhere, and nothing is counted. */
SEC("tp_btf/block_rq_issue")
int block_rq_issue(__u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	__u64 key = (__u64)request, now = bpf_ktime_get_ns();
	struct gendisk *disk = BPF_CORE_READ(request, q, disk);
	__u32 device = (__u32)BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor);
	if (!is_timed(device))
		return 0;
	struct phase phase = { .since = now, .event = AT_DEVICE };
	/* One that comes again has not left. */
	if (bpf_map_update_elem(&phases, &key, &phase, BPF_NOEXIST))
		return 0;
	change_in_flight(1, now);
	/* The write of a flush has waited for it, and not in a queue. */
	__u64 started = BPF_CORE_READ(request, start_time_ns);
	if (started && started <= now && !BPF_CORE_READ(request, end_io))
		count(IN_QUEUE, started, now);
	__u32 bytes = BPF_CORE_READ(request, __data_len), flags = BPF_CORE_READ(request, cmd_flags);
	if (bytes)
		move(device, now, BPF_CORE_READ(request, __sector), bytes);
	if (bytes && (flags & REQ_OP_MASK) == REQ_OP_WRITE)
		count_amount(WRITTEN, now, bytes);
	if (flags & (1U << bpf_core_enum_value(enum req_flag_bits, __REQ_FUA)))
		count(FORCED, now, now);
	return 0;
}

/* The phase of an address ends, and another one begins, or none. 0 if it was in none. */
static __always_inline int pass(__u64 key, __u64 now, enum event next)
{
	struct phase *known = bpf_map_lookup_elem(&phases, &key);
	if (known)
		count(known->event, known->since, now);
	if (next == EVENTS) {
		bpf_map_delete_elem(&phases, &key);
	} else {
		struct phase phase = { .since = now, .event = next };
		bpf_map_update_elem(&phases, &key, &phase, BPF_ANY);
	}
	return known != 0;
}

SEC("tp_btf/block_rq_complete")
int block_rq_complete(__u64 *ctx)
{
	__u64 key = ctx[0], now = bpf_ktime_get_ns();
	/* The rest of it goes on. */
	if ((__u32)ctx[2] < BPF_CORE_READ((struct request *)key, __data_len))
		return 0;
	if (pass(key, now, EVENTS))
		change_in_flight(-1, now);
	return 0;
}

static __always_inline int commit(__u64 *ctx, enum event next)
{
	struct journal_s *journal = (void *)ctx[0];
	if (is_timed(BPF_CORE_READ(journal, j_fs_dev, bd_dev)))
		pass((__u64)journal, bpf_ktime_get_ns(), next);
	return 0;
}

SEC("tp_btf/jbd2_start_commit")
int jbd2_start_commit(__u64 *ctx)
{
	return commit(ctx, LOCKING);
}

SEC("tp_btf/jbd2_commit_flushing")
int jbd2_commit_flushing(__u64 *ctx)
{
	return commit(ctx, FLUSHING);
}

SEC("tp_btf/jbd2_commit_logging")
int jbd2_commit_logging(__u64 *ctx)
{
	return commit(ctx, LOGGING);
}

SEC("tp_btf/jbd2_end_commit")
int jbd2_end_commit(__u64 *ctx)
{
	return commit(ctx, EVENTS);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
