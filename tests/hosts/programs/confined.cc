// Runs a program under a seccomp profile: confined docker|service PROGRAM ARGUMENTS...
//
// docker: what the default profile of Docker 20.10 refuses with EPERM, on a kernel before 4.8 (which refuses ptrace
// too). service: `SystemCallFilter=@system-service` of systemd 252, which kills the process.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

const std::vector<unsigned> kDocker = {SYS_acct,
                                       SYS_add_key,
                                       SYS_bpf,
                                       SYS_clock_adjtime,
                                       SYS_clock_settime,
                                       SYS_delete_module,
                                       SYS_finit_module,
                                       SYS_get_mempolicy,
                                       SYS_init_module,
                                       SYS_io_uring_setup,
                                       SYS_kcmp,
                                       SYS_kexec_load,
                                       SYS_keyctl,
                                       SYS_lookup_dcookie,
                                       SYS_mbind,
                                       SYS_mount,
                                       SYS_move_pages,
                                       SYS_nfsservctl,
                                       SYS_open_by_handle_at,
                                       SYS_perf_event_open,
                                       SYS_pivot_root,
                                       SYS_process_vm_readv,
                                       SYS_process_vm_writev,
                                       SYS_ptrace,
                                       SYS_quotactl,
                                       SYS_reboot,
                                       SYS_request_key,
                                       SYS_set_mempolicy,
                                       SYS_setns,
                                       SYS_settimeofday,
                                       SYS_swapoff,
                                       SYS_swapon,
                                       SYS_umount2,
                                       SYS_unshare,
                                       SYS_userfaultfd,
                                       SYS_pidfd_getfd,
                                       SYS_syslog};
const std::vector<unsigned> kService = {
    SYS_acct,          SYS_adjtimex,        SYS_bpf,           SYS_chroot,        SYS_clock_adjtime,
    SYS_clock_settime, SYS_delete_module,   SYS_fanotify_init, SYS_fanotify_mark, SYS_finit_module,
    SYS_fsmount,       SYS_fsopen,          SYS_init_module,   SYS_kexec_load,    SYS_lookup_dcookie,
    SYS_mincore,       SYS_mount,           SYS_move_mount,    SYS_nfsservctl,    SYS_open_by_handle_at,
    SYS_open_tree,     SYS_perf_event_open, SYS_pidfd_getfd,   SYS_pivot_root,    SYS_pkey_alloc,
    SYS_pkey_free,     SYS_pkey_mprotect,   SYS_ptrace,        SYS_quotactl,      SYS_reboot,
    SYS_seccomp,       SYS_setdomainname,   SYS_sethostname,   SYS_settimeofday,  SYS_swapoff,
    SYS_swapon,        SYS_syslog,          SYS_umount2,       SYS_vhangup};

bool Confine(const std::vector<unsigned>& refused, unsigned action) {
  std::vector<sock_filter> program = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const unsigned call : refused) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, action));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const bool service = std::strcmp(argv[1], "service") == 0;
  if (!Confine(service ? kService : kDocker, service ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM)) return 77;
  execvp(argv[2], argv + 2);
  std::perror(argv[2]);
  return 127;
}
