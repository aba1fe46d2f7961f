/* The bar: the least a C program can do around the calls that fstrial measures. Nothing is recorded, errors end it.
 *
 *   bare read  FILE THREADS WARMUP_MS MS     pread of 4 KiB at random places of a file that is there
 *   bare write FILE THREADS WARMUP_MS MS     pwrite of the same 4 KiB, likewise
 *   bare fresh FILE THREADS WARMUP_MS MS     pwrite of 4 KiB that were not written before: pages of 1 MiB in turn, each
 *                                            marked with a number, as fstrial does
 *   bare uring FILE THREADS WARMUP_MS MS     io_uring, 32 reads for each system call; file and buffers registered
 *   bare files DIR  THREADS WARMUP_MS MS     make a file, write 4 KiB, close, delete the one before; a directory each
 *
 * Prints how many operations, in how many seconds (the mean over the threads), and how many of them on a processor.
 * One thread is the process's only one. Each has its own descriptor and its own buffer. The clock is read once for 64
 * operations, to find the end. No library is between the loops and the kernel.
 *
 * Build: cc -O2 -pthread bare.c -o bare
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define BATCH 64
#define DEPTH 32
#define POOL (1 << 20)

struct worker {
    pthread_t thread;
    const char *mode, *path;
    int number;
    uint64_t warmup_ns, ns;
    uint64_t blocks, random;
    int fd;
    char *buffer;
    uint64_t operations;
    double seconds, cpu_seconds;
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A system call in place: by the C library's function it took a fifth longer where this was written (docs/benchmarks.md),
 * and so would be too low a bar. */
#ifdef __x86_64__
static inline long call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#else
#define call syscall
#endif

/* xorshift64*, and a multiplication instead of a division. */
static inline uint64_t offset(struct worker *w) {
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    uint64_t draw = w->random * 0x2545f4914f6cdd1dull;
    return (uint64_t)(((unsigned __int128)draw * w->blocks) >> 64) * BLOCK;
}

/* Runs `batch`, which says how many operations it did, until the time is over. */
#define TIME(w, batch)                                                                                                 \
    do {                                                                                                               \
        for (uint64_t end = now(CLOCK_MONOTONIC) + (w)->warmup_ns; now(CLOCK_MONOTONIC) < end;) (void)(batch);         \
        uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID), start = now(CLOCK_MONOTONIC), at, done = 0;                       \
        do done += (batch);                                                                                            \
        while ((at = now(CLOCK_MONOTONIC)) < start + (w)->ns);                                                         \
        (w)->operations = done;                                                                                        \
        (w)->seconds = (at - start) / 1e9;                                                                             \
        (w)->cpu_seconds = (now(CLOCK_THREAD_CPUTIME_ID) - cpu) / 1e9;                                                 \
    } while (0)

static inline uint64_t reads(struct worker *w) {
    for (int n = 0; n < BATCH; n++)
        if (call(SYS_pread64, w->fd, (long)w->buffer, BLOCK, offset(w), 0, 0) != BLOCK) die("pread");
    return BATCH;
}

static inline uint64_t writes(struct worker *w) {
    for (int n = 0; n < BATCH; n++)
        if (call(SYS_pwrite64, w->fd, (long)w->buffer, BLOCK, offset(w), 0, 0) != BLOCK) die("pwrite");
    return BATCH;
}

static inline uint64_t fresh_writes(struct worker *w, uint64_t *written) {
    for (int n = 0; n < BATCH; n++) {
        char *page = w->buffer + *written * BLOCK % POOL;
        memcpy(page, written, sizeof *written);
        ++*written;
        if (call(SYS_pwrite64, w->fd, (long)page, BLOCK, offset(w), 0, 0) != BLOCK) die("pwrite");
    }
    return BATCH;
}

static char *name(char *text, uint64_t number) {
    for (int n = 16; n > 0; n--, number >>= 4) text[n] = "0123456789abcdef"[number & 15];
    return text;
}

static void make(struct worker *w, const char *name) {
    int fd = call(SYS_openat, w->fd, (long)name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600, 0, 0);
    if (fd < 0) die("openat");
    if (call(SYS_pwrite64, fd, (long)w->buffer, BLOCK, 0, 0, 0) != BLOCK) die("pwrite");
    call(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* As a turn of fstrial over a set of one file: makes the next, deletes the one before. */
static inline uint64_t files(struct worker *w, uint64_t *next) {
    char text[] = "f0000000000000000";
    for (int n = 0; n < BATCH; n++) {
        make(w, name(text, ++*next));
        if (call(SYS_unlinkat, w->fd, (long)name(text, *next - 1), 0, 0, 0, 0)) die("unlinkat");
    }
    return BATCH;
}

struct ring {
    int fd;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
};

static void *map(int fd, size_t length, off_t what) {
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
    if (memory == MAP_FAILED) die("mmap of the ring");
    return memory;
}

static void register_with(int ring, unsigned what, void *argument, unsigned count) {
    if (syscall(SYS_io_uring_register, ring, what, argument, count) < 0) die("io_uring_register");
}

static struct ring new_ring(struct worker *w) {
    struct io_uring_params p = {
        .flags = IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
    };
    struct ring r = {.fd = syscall(SYS_io_uring_setup, DEPTH, &p)};
    if (r.fd < 0) die("io_uring_setup");
    char *sq = map(r.fd, p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *cq = map(r.fd, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    r.sqes = map(r.fd, p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    r.sq_tail = (unsigned *)(sq + p.sq_off.tail);
    r.sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
    r.sq_array = (unsigned *)(sq + p.sq_off.array);
    r.cq_head = (unsigned *)(cq + p.cq_off.head);
    r.cq_tail = (unsigned *)(cq + p.cq_off.tail);
    r.cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
    r.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
    for (unsigned n = 0; n < p.sq_entries; n++) r.sq_array[n] = n;
    struct iovec memory = {w->buffer, DEPTH * BLOCK};
    register_with(r.fd, IORING_REGISTER_FILES, &w->fd, 1);
    register_with(r.fd, IORING_REGISTER_BUFFERS, &memory, 1);
    struct io_uring_rsrc_update own = {.offset = -1u, .data = (unsigned)r.fd};
    register_with(r.fd, IORING_REGISTER_RING_FDS, &own, 1);
    r.fd = own.offset;
    return r;
}

/* Keeps the depth full: a new read for each that completed, all with one system call. */
static inline uint64_t ring_turn(struct worker *w, struct ring *r, unsigned *free, unsigned *frees) {
    unsigned tail = *r->sq_tail, new = *frees;
    while (*frees) {
        unsigned slot = free[--*frees];
        struct io_uring_sqe *e = &r->sqes[tail++ & *r->sq_mask];
        *e = (struct io_uring_sqe){
            .opcode = IORING_OP_READ_FIXED,
            .flags = IOSQE_FIXED_FILE,
            .addr = (uintptr_t)(w->buffer + slot * BLOCK),
            .len = BLOCK,
            .off = offset(w),
            .user_data = slot,
        };
    }
    __atomic_store_n(r->sq_tail, tail, __ATOMIC_RELEASE);
    unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_REGISTERED_RING;
    if (call(SYS_io_uring_enter, r->fd, new, 1, flags, 0, 0) < 0) die("io_uring_enter");
    unsigned head = *r->cq_head, end = __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE), done = end - head;
    for (; head != end; head++) {
        struct io_uring_cqe *c = &r->cqes[head & *r->cq_mask];
        if (c->res != BLOCK) die("a read of the ring");
        free[(*frees)++] = c->user_data;
    }
    __atomic_store_n(r->cq_head, head, __ATOMIC_RELEASE);
    return done;
}

static void run_ring(struct worker *w) {
    struct ring r = new_ring(w);
    unsigned free[DEPTH], frees = DEPTH;
    for (unsigned n = 0; n < DEPTH; n++) free[n] = n;
    TIME(w, ring_turn(w, &r, free, &frees) + ring_turn(w, &r, free, &frees));
}

static void *work(void *argument) {
    struct worker *w = argument;
    w->buffer = aligned_alloc(BLOCK, POOL);
    memset(w->buffer, w->number + 1, POOL);
    w->random = 0x9e3779b97f4a7c15ull * (w->number + 1);
    if (!strcmp(w->mode, "files")) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d", w->path, w->number);
        if (mkdir(path, 0700)) die(path);
        w->fd = open(path, O_DIRECTORY | O_CLOEXEC);
        uint64_t next = 0;
        make(w, "f0000000000000000");
        TIME(w, files(w, &next));
        return NULL;
    }
    struct stat stat;
    w->fd = open(w->path, O_RDWR | O_CLOEXEC);
    if (w->fd < 0 || fstat(w->fd, &stat)) die(w->path);
    w->blocks = stat.st_size / BLOCK;
    if (!strcmp(w->mode, "read")) TIME(w, reads(w));
    else if (!strcmp(w->mode, "write")) TIME(w, writes(w));
    else if (!strcmp(w->mode, "fresh")) {
        uint64_t written = 0;
        TIME(w, fresh_writes(w, &written));
    }
    else run_ring(w);
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 6) {
        fprintf(stderr, "usage: bare read|write|fresh|uring|files PATH THREADS WARMUP_MS MS\n");
        return 2;
    }
    int threads = atoi(arguments[3]);
    struct worker *workers = calloc(threads, sizeof *workers);
    for (int n = 0; n < threads; n++) {
        struct worker *w = &workers[n];
        w->mode = arguments[1];
        w->path = arguments[2];
        w->number = n;
        w->warmup_ns = strtoull(arguments[4], NULL, 10) * 1000000;
        w->ns = strtoull(arguments[5], NULL, 10) * 1000000;
        if (threads == 1) work(w);
        else if (pthread_create(&w->thread, NULL, work, w)) die("pthread_create");
    }
    uint64_t operations = 0;
    double seconds = 0, cpu_seconds = 0;
    for (int n = 0; n < threads; n++) {
        if (threads > 1) pthread_join(workers[n].thread, NULL);
        operations += workers[n].operations;
        seconds += workers[n].seconds / threads;
        cpu_seconds += workers[n].cpu_seconds / threads;
    }
    printf("%llu %.9f %.9f\n", (unsigned long long)operations, seconds, cpu_seconds);
    return 0;
}
