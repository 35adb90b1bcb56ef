// A file system of one file, /data, each read, write and sync of which takes so long.
//
//   SLOW_FILE_US=8000 slow_file -f MOUNTPOINT
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char kName[] = "/data";
static useconds_t delay_us;

static int slow_getattr(const char* path, struct stat* status, struct fuse_file_info* info) {
  (void)info;
  memset(status, 0, sizeof(*status));
  status->st_nlink = 1;
  if (strcmp(path, "/") == 0) {
    status->st_mode = S_IFDIR | 0755;
    return 0;
  }
  if (strcmp(path, kName) != 0) return -ENOENT;
  status->st_mode = S_IFREG | 0600;
  status->st_size = 1 << 30;
  return 0;
}

// Nothing is kept by the kernel: each read and write comes here.
static int slow_open(const char* path, struct fuse_file_info* info) {
  info->direct_io = 1;
  return strcmp(path, kName) == 0 ? 0 : -ENOENT;
}

static int slow_read(const char* path, char* to, size_t bytes, off_t from, struct fuse_file_info* info) {
  (void)path, (void)from, (void)info;
  usleep(delay_us);
  memset(to, 7, bytes);
  return (int)bytes;
}

static int slow_write(const char* path, const char* bytes, size_t count, off_t to, struct fuse_file_info* info) {
  (void)path, (void)bytes, (void)to, (void)info;
  usleep(delay_us);
  return (int)count;
}

static int slow_truncate(const char* path, off_t to, struct fuse_file_info* info) {
  (void)path, (void)to, (void)info;
  return 0;
}

static int slow_fsync(const char* path, int only_data, struct fuse_file_info* info) {
  (void)path, (void)only_data, (void)info;
  usleep(delay_us);
  return 0;
}

int main(int argc, char** argv) {
  const char* const delay = getenv("SLOW_FILE_US");
  delay_us = delay ? (useconds_t)atoi(delay) : 0;
  const struct fuse_operations operations = {.getattr = slow_getattr,
                                             .open = slow_open,
                                             .read = slow_read,
                                             .write = slow_write,
                                             .truncate = slow_truncate,
                                             .fsync = slow_fsync};
  return fuse_main(argc, argv, &operations, NULL);
}
