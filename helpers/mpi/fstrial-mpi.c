/*
 * fstrial-mpi PROGRAM: started by `mpirun -np N`, runs `PROGRAM worker --client` on every rank, and carries its words.
 *
 * Of MPI it needs a broadcast, a barrier and a gather, so that a site builds it in a second against the MPI that it has. The line on rank
 * 0's standard input goes to all clients, after one with the rank. A client that says `barrier` waits for all others, and then gets what its
 * clock differs from that of rank 0's host; anything else that it says is gathered, and printed by rank 0 in the order of ranks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Raised when the lines between it and fstrial change. */
enum { VERSION = 2 };
enum { PINGS = 20, NAP_US = 2000, MAX_LINE = 64 << 20 };

static int rank, size;
static volatile pid_t client;

/* The client is gone before this process is: what waits for ranks waits for clients. */
static void end(int number)
{
    if (client > 0) {
        kill(client, SIGKILL);
        waitpid(client, NULL, 0);
    }
    _exit(128 + number);
}

static void fail(const char *what)
{
    fprintf(stderr, "fstrial-mpi, rank %d: %s: %s\n", rank, what, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What to add to this host's clock for that of rank 0, and how far it may be off: half of the fastest of some round trips. */
static void compare_clocks(int64_t *offset, int64_t *doubt)
{
    *offset = *doubt = 0;
    /* A clock that is set meanwhile is no shorter trip. */
    for (int other = 1; other < size; other++) {
        int64_t best = INT64_MAX;
        for (int ping = 0; ping < PINGS; ping++) {
            int64_t theirs = 0;
            if (rank == other) {
                int64_t sent = now_ns(CLOCK_REALTIME), began = now_ns(CLOCK_MONOTONIC);
                MPI_Send(&sent, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD);
                MPI_Recv(&theirs, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                int64_t trip = now_ns(CLOCK_MONOTONIC) - began;
                if (trip < best) {
                    best = trip;
                    *offset = theirs - (sent + trip / 2);
                    *doubt = trip / 2;
                }
            } else if (rank == 0) {
                MPI_Recv(&theirs, 1, MPI_INT64_T, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                theirs = now_ns(CLOCK_REALTIME);
                MPI_Send(&theirs, 1, MPI_INT64_T, other, 0, MPI_COMM_WORLD);
            }
        }
    }
}

/* How many ranks on there is one of the next host, where all hosts have as many ranks, in blocks or by turns; 1 on one host. As IOR's and
 * mdtest's shift. */
static int to_next_host(void)
{
    MPI_Comm host;
    MPI_Group all, here;
    int ranks_here, second = size > 1, is_here;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &ranks_here);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Comm_group(host, &here);
    MPI_Group_translate_ranks(all, 1, &second, here, &is_here);
    int shift = is_here != MPI_UNDEFINED && ranks_here < size ? ranks_here : 1;
    /* What the first rank sees counts. */
    MPI_Bcast(&shift, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Group_free(&all);
    MPI_Group_free(&here);
    MPI_Comm_free(&host);
    return shift;
}

/* Waits for all ranks without keeping a processor busy, which may have another client's work to do. */
static void wait_for_all(void)
{
    MPI_Request request;
    int is_done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (;;) {
        MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
        if (is_done) return;
        usleep(NAP_US);
    }
}

/* A line of a file without its end; NULL at the end of the file. */
static char *line_of(FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    errno = 0;
    ssize_t length;
    while ((length = getline(&line, &room, file)) < 0 && errno == EINTR) clearerr(file);
    if (length <= 0) {
        free(line);
        return NULL;
    }
    if (line[length - 1] == '\n') line[--length] = 0;
    if (length > MAX_LINE) fail("a line is too long");
    return line;
}

static char *broadcast(char *line)
{
    int length = rank == 0 ? (int)strlen(line) : 0;
    MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank != 0) line = calloc((size_t)length + 1, 1);
    if (line == NULL) fail("memory");
    MPI_Bcast(line, length, MPI_CHAR, 0, MPI_COMM_WORLD);
    return line;
}

/* A line for fstrial; MPI prints others. */
static void say(const char *line)
{
    printf("fstrial %s\n", line);
    fflush(stdout);
}

/* Rank 0 prints the lines of all. They are taken one after the other, so that it needs room for one. */
static void gather(const char *line)
{
    int length = (int)strlen(line);
    wait_for_all();
    if (rank != 0) {
        MPI_Send(&length, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Send(line, length, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
        return;
    }
    say(line);
    for (int other = 1; other < size; other++) {
        MPI_Recv(&length, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        char *theirs = calloc((size_t)length + 1, 1);
        if (theirs == NULL) fail("memory");
        MPI_Recv(theirs, length, MPI_CHAR, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        say(theirs);
        free(theirs);
    }
}

/* Starts the client, which ends with its standard input. */
static pid_t start(const char *program, FILE **to, FILE **from)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        perror("fstrial-mpi: pipe");
        exit(1);
    }
    pid_t child = fork();
    if (child < 0) {
        perror("fstrial-mpi: fork");
        exit(1);
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(program, program, "worker", "--client", (char *)NULL);
        fprintf(stderr, "fstrial-mpi: %s: %s\n", program, strerror(errno));
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    *to = fdopen(in[1], "w");
    *from = fdopen(out[0], "r");
    if (*to == NULL || *from == NULL) {
        perror("fstrial-mpi: fdopen");
        exit(1);
    }
    return child;
}

int main(int argc, char **argv)
{
    FILE *to, *from;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("fstrial-mpi %d\n", VERSION);
        return 0;
    }
    if (argc != 2) {
        fprintf(stderr, "usage: mpirun -np N fstrial-mpi PROGRAM (fstrial itself starts it)\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    /* Before MPI: a process that has its memory registered with a network is not to be forked. */
    client = start(argv[1], &to, &from);
    MPI_Init(&argc, &argv);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, end);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int versions[2] = {VERSION, -VERSION}, most[2];
    MPI_Allreduce(versions, most, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (most[0] != VERSION || most[1] != -VERSION) fail("another host has another version of it");
    char *order = NULL;
    if (rank == 0 && (order = line_of(stdin)) == NULL) fail("standard input has no order");
    order = broadcast(order);
    fprintf(to, "{\"rank\":%d,\"to_next_host\":%d}\n%s\n", rank, to_next_host(), order);
    fflush(to);
    free(order);
    char *line;
    while ((line = line_of(from)) != NULL) {
        if (strcmp(line, "barrier") == 0) {
            int64_t offset, doubt;
            wait_for_all();
            if (rank == 0) say("barrier");
            compare_clocks(&offset, &doubt);
            MPI_Barrier(MPI_COMM_WORLD);
            fprintf(to, "{\"offset_ns\":%lld,\"doubt_ns\":%lld}\n", (long long)offset, (long long)doubt);
            fflush(to);
        } else {
            gather(line);
        }
        free(line);
    }
    int status = 0;
    /* Its number is free as soon as it is waited for. */
    signal(SIGTERM, SIG_DFL);
    while (waitpid(client, &status, 0) < 0 && errno == EINTR) {}
    client = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    MPI_Finalize();
    return 0;
}
