// One entry for each wrapped function: a jump to where its slot leads, with all registers and the stack as they came,
// so that the wrapper sees the application's return address. At first a slot leads to the line below the entry, which
// says its number and asks for the function (preload.cc).
        .macro entry number, name
        .text
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        jmp     *ncclwatch_slots+8*\number(%rip)
1:      endbr64
        pushq   $\number
        .cfi_adjust_cfa_offset 8
        jmp     ncclwatch_find_function
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
        .type   ncclwatch_find_function, @function
ncclwatch_find_function:                // the number lies on top of the stack
        .cfi_startproc
        .cfi_def_cfa_offset 16
        .irp    register, rdi, rsi, rdx, rcx, r8, r9, rax
        pushq   %\register
        .cfi_adjust_cfa_offset 8
        .endr
        subq    $128, %rsp
        .cfi_adjust_cfa_offset 128
        .irp    number, 0, 1, 2, 3, 4, 5, 6, 7
        movups  %xmm\number, 16*\number(%rsp)
        .endr
        movl    128+7*8(%rsp), %edi
        movq    128+8*8(%rsp), %rsi     // the caller
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbp, 0
        movq    %rsp, %rbp
        .cfi_def_cfa_register rbp
        andq    $-16, %rsp
        call    ncclwatch_function
        movq    %rbp, %rsp
        .cfi_def_cfa_register rsp
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbp
        movq    %rax, %r11
        .irp    number, 0, 1, 2, 3, 4, 5, 6, 7
        movups  16*\number(%rsp), %xmm\number
        .endr
        addq    $128, %rsp
        .cfi_adjust_cfa_offset -128
        .irp    register, rax, r9, r8, rcx, rdx, rsi, rdi
        popq    %\register
        .cfi_adjust_cfa_offset -8
        .endr
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        jmp     *%r11
        .cfi_endproc
        .size   ncclwatch_find_function, .-ncclwatch_find_function
        .section .note.GNU-stack, "", @progbits

// Indirect branches land on endbr64, and no return address is changed: fit for CET.
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5                // lengths of the name and of what follows, NT_GNU_PROPERTY_TYPE_0
        .asciz  "GNU"
        .long   0xc0000002, 4, 3, 0     // GNU_PROPERTY_X86_FEATURE_1_AND: IBT, SHSTK
