/* sqlite-jdbc is compiled without fdatasync, which distributions compile SQLite with, as fstrial does. */
#include <unistd.h>

int fsync(int file) { return fdatasync(file); }
