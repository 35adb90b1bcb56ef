// One entry for each wrapped function: a jump to where its slot leads, with all registers and the stack as they came,
// so that the wrapper sees the application's return address. At first a slot leads to the line below the entry, which
// says its number and asks for the function (preload.cc). x16 and x17 are the linker's to use between functions.
        .macro LEAD number
        hint    #34                     // bti c
        adrp    x16, ncclwatch_slots+8*\number
        ldr     x16, [x16, :lo12:ncclwatch_slots+8*\number]
        br      x16
        .endm

        .macro entry number, name
        .text
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:
        .cfi_startproc
        LEAD    \number
1:      hint    #34
        mov     w17, #\number
        b       ncclwatch_find_function
        .cfi_endproc
        .size   \name, .-\name
        .data
        .quad   1b
        .endm

#define ENTRY(number, name, kind) entry number, name

        .data
        .p2align 3
        .globl  ncclwatch_slots
        .hidden ncclwatch_slots
ncclwatch_slots:
#include "entries.inc"

        .text
        .type   ncclwatch_find_function, %function
ncclwatch_find_function:                // the number is in w17
        .cfi_startproc
        stp     x29, x30, [sp, #-224]!
        .cfi_def_cfa_offset 224
        .cfi_offset 29, -224
        .cfi_offset 30, -216
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        str     x8, [sp, #80]
        stp     q0, q1, [sp, #96]
        stp     q2, q3, [sp, #128]
        stp     q4, q5, [sp, #160]
        stp     q6, q7, [sp, #192]
        mov     w0, w17
        mov     x1, x30                 // the caller
        bl      ncclwatch_function
        mov     x16, x0
        ldp     q6, q7, [sp, #192]
        ldp     q4, q5, [sp, #160]
        ldp     q2, q3, [sp, #128]
        ldp     q0, q1, [sp, #96]
        ldr     x8, [sp, #80]
        ldp     x6, x7, [sp, #64]
        ldp     x4, x5, [sp, #48]
        ldp     x2, x3, [sp, #32]
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #224
        .cfi_restore 29
        .cfi_restore 30
        .cfi_def_cfa_offset 0
        br      x16
        .cfi_endproc
        .size   ncclwatch_find_function, .-ncclwatch_find_function
        .section .note.GNU-stack, "", %progbits
