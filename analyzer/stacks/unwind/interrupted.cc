#include "analyzer/stacks/unwind/interrupted.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>

namespace ncclwatch::stacks {
namespace {

template <std::size_t kCount>
bool Among(const std::array<long, kCount>& calls, long call) {
  return std::find(calls.begin(), calls.end(), call) != calls.end();
}

constexpr std::array kAnew = {
#ifdef SYS_epoll_wait
    static_cast<long>(SYS_epoll_wait),
#endif
#ifdef SYS_epoll_pwait2
    static_cast<long>(SYS_epoll_pwait2),
#endif
    static_cast<long>(SYS_epoll_pwait),     static_cast<long>(SYS_semop),        static_cast<long>(SYS_semtimedop),
    static_cast<long>(SYS_rt_sigtimedwait), static_cast<long>(SYS_recvfrom),     static_cast<long>(SYS_recvmsg),
    static_cast<long>(SYS_recvmmsg),        static_cast<long>(SYS_sendto),       static_cast<long>(SYS_sendmsg),
    static_cast<long>(SYS_accept),          static_cast<long>(SYS_accept4),      static_cast<long>(SYS_read),
    static_cast<long>(SYS_readv),           static_cast<long>(SYS_write),        static_cast<long>(SYS_writev),
    static_cast<long>(SYS_io_getevents),    static_cast<long>(SYS_msgrcv),       static_cast<long>(SYS_msgsnd),
    static_cast<long>(SYS_mq_timedreceive), static_cast<long>(SYS_mq_timedsend),
};

constexpr std::array kByItself = {
#ifdef SYS_poll
    static_cast<long>(SYS_poll),
#endif
#ifdef SYS_select
    static_cast<long>(SYS_select),
#endif
#ifdef SYS_pause
    static_cast<long>(SYS_pause),
#endif
#ifdef SYS_futex_waitv
    static_cast<long>(SYS_futex_waitv),
#endif
    static_cast<long>(SYS_futex),       static_cast<long>(SYS_ppoll),           static_cast<long>(SYS_pselect6),
    static_cast<long>(SYS_nanosleep),   static_cast<long>(SYS_clock_nanosleep), static_cast<long>(SYS_restart_syscall),
    static_cast<long>(SYS_wait4),       static_cast<long>(SYS_waitid),          static_cast<long>(SYS_rt_sigsuspend),
    static_cast<long>(SYS_flock),
};

constexpr std::array kOnFiles = {
    static_cast<long>(SYS_read),
    static_cast<long>(SYS_readv),
    static_cast<long>(SYS_write),
    static_cast<long>(SYS_writev),
};

}  // namespace

bool MayBeginAnew(long call) { return Among(kAnew, call); }

bool GoesOnByItself(long call, bool on_socket) {
  return Among(kByItself, call) || (Among(kOnFiles, call) && !on_socket);
}

}  // namespace ncclwatch::stacks
