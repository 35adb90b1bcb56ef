// OLD name, version: all calls of `name` in the file that is linked go to this version of it.
#if defined(__x86_64__)
#define OLDEST 2.2.5
#else
#define OLDEST 2.17
#endif
.macro OLD name, version
        .text
        .globl  \name
        .hidden \name
        .type   \name, %function
        .p2align 4
\name:
#if defined(__x86_64__)
        endbr64
        jmp     *ncclwatch_old_\name@GOTPCREL(%rip)
        .symver ncclwatch_old_\name, \name@GLIBC_\version
#else
        hint    #34
        adrp    x16, :got:ncclwatch_old_\name
        ldr     x16, [x16, :got_lo12:ncclwatch_old_\name]
        br      x16
        .symver ncclwatch_old_\name, \name@GLIBC_\version
#endif
        .size   \name, .-\name
        .endm
