/* Preloaded into a process: counts what it creates below a folder (files, folders, renames), in their order, and raises
   a signal right after the one that is asked for.

   FAULT_FOLDER  below which creations count
   FAULT_LOG     gets the path of each, a line
   FAULT_AT      number of the creation after which the signal is raised, from 1
   FAULT_SIGNAL  its number

   They are looked for at each creation until they are there, so that a process can be forked from a preloaded one and
   get them then. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[PATH_MAX];
static int log_descriptor = -1, number;
static long at;
static atomic_long count;
static pthread_once_t begun = PTHREAD_ONCE_INIT;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void begin(void) {
    at = atol(getenv("FAULT_AT"));
    number = atoi(getenv("FAULT_SIGNAL"));
    log_descriptor = REAL(open)(getenv("FAULT_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    snprintf(folder, sizeof folder, "%s/", getenv("FAULT_FOLDER"));
}

/* The path as it is written in the log; 0 where it does not count. */
static int counts(int at_folder, const char *path, char *whole) {
    if (!path || !getenv("FAULT_FOLDER")) return 0;
    pthread_once(&begun, begin);
    if (path[0] == '/') {
        snprintf(whole, PATH_MAX, "%s", path);
    } else {
        char link[64], base[PATH_MAX];
        ssize_t length = 0;
        if (at_folder == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) return 0;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", at_folder);
            if ((length = readlink(link, base, sizeof base - 1)) < 0) return 0;
            base[length] = 0;
        }
        if (snprintf(whole, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return 0;
    }
    return strncmp(whole, folder, strlen(folder)) == 0;
}

static void created(const char *whole) {
    char line[PATH_MAX + 1];
    long now = atomic_fetch_add(&count, 1) + 1;
    int length = snprintf(line, sizeof line, "%s\n", whole + strlen(folder));
    if (write(log_descriptor, line, length) < 0) abort();
    if (now == at) kill(getpid(), number);
}

#define OPEN(name, declared, at_folder, call)                                                \
    int name declared {                                                          \
        mode_t mode = 0;                                                         \
        if (flags & (O_CREAT | O_TMPFILE)) {                                     \
            va_list more;                                                        \
            va_start(more, flags);                                               \
            mode = va_arg(more, mode_t);                                         \
            va_end(more);                                                        \
        }                                                                        \
        char whole[PATH_MAX];                                                    \
        int new = (flags & O_CREAT) && counts(at_folder, path, whole) && access(whole, F_OK); \
        int opened = call;                                                       \
        if (new && opened >= 0) created(whole);                                  \
        return opened;                                                           \
    }

OPEN(open, (const char *path, int flags, ...), AT_FDCWD, REAL(open)(path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, REAL(open64)(path, flags, mode))
OPEN(openat, (int parent, const char *path, int flags, ...), parent, REAL(openat)(parent, path, flags, mode))
OPEN(openat64, (int parent, const char *path, int flags, ...), parent, REAL(openat64)(parent, path, flags, mode))

#define MAKE(name, type, declared, at_folder, path, failed, condition, call)                 \
    type name declared {                                                                     \
        char whole[PATH_MAX];                                                                \
        int new = counts(at_folder, path, whole) && (condition);                             \
        type made = call;                                                                    \
        if (new && made != failed) created(whole);                                           \
        return made;                                                                         \
    }

MAKE(creat, int, (const char *path, mode_t mode), AT_FDCWD, path, -1, access(whole, F_OK), REAL(creat)(path, mode))
MAKE(creat64, int, (const char *path, mode_t mode), AT_FDCWD, path, -1, access(whole, F_OK), REAL(creat64)(path, mode))
MAKE(mkdir, int, (const char *path, mode_t mode), AT_FDCWD, path, -1, 1, REAL(mkdir)(path, mode))
MAKE(mkdirat, int, (int parent, const char *path, mode_t mode), parent, path, -1, 1, REAL(mkdirat)(parent, path, mode))
MAKE(rename, int, (const char *old, const char *path), AT_FDCWD, path, -1, 1, REAL(rename)(old, path))
MAKE(renameat, int, (int from, const char *old, int parent, const char *path), parent, path, -1, 1,
     REAL(renameat)(from, old, parent, path))
MAKE(renameat2, int, (int from, const char *old, int parent, const char *path, unsigned flags), parent, path, -1, 1,
     REAL(renameat2)(from, old, parent, path, flags))
MAKE(link, int, (const char *old, const char *path), AT_FDCWD, path, -1, 1, REAL(link)(old, path))
MAKE(linkat, int, (int from, const char *old, int parent, const char *path, int flags), parent, path, -1, 1,
     REAL(linkat)(from, old, parent, path, flags))
MAKE(fopen, FILE *, (const char *path, const char *mode), AT_FDCWD, path, NULL, access(whole, F_OK),
     REAL(fopen)(path, mode))
MAKE(fopen64, FILE *, (const char *path, const char *mode), AT_FDCWD, path, NULL, access(whole, F_OK),
     REAL(fopen64)(path, mode))
