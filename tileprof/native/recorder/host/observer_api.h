/* What an observer of a framework calls: a table of functions, so that the observer is linked with
 * the framework alone. Plain C; handed over by address (`_recorder.observer_table()`). */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TILEPROF_OBSERVER_VERSION 8

/* What the tensors of a visit of an operation tell. */
typedef struct TileprofVisit {
  double bytes;    /* that it has to move */
  double table;    /* bytes of the table that it looks rows up in, where that gets a dense gradient */
  double rows;     /* bytes of those rows, each as often as it is looked up */
  double shared;   /* bytes of such a table that it takes as the matrix of a product */
  double slots;    /* elements of a batch of rows of whole numbers, on the host */
  double padding;  /* those of them that fill rows up */
} TileprofVisit;

typedef struct TileprofObserver {
  uint32_t version;
  /* The number of an operation's name; asked once for each name. */
  uint32_t (*name)(const char *text);
  /* The recorder's state of the calling thread, to be kept until the thread ends or the process is
   * forked: then `*forks` has changed. */
  void *(*thread)(void);
  const uint32_t *forks;
  /* An operation begins in the calling thread, `in`. `sequence` >= 0 is the number that it shares with
   * its backward, counted in the framework's thread `thread`. `function` is what `leave` is told of
   * it: an object that lives as long as the operation, on the stack of the native function that the
   * operation ends with or on the heap. Returns its context; 0 where nobody records. */
  uint32_t (*enter)(void *in, uint32_t name, int64_t sequence, uint64_t thread,
                    const void *function);
  /* A backward operation begins: of the operation of that sequence number in `forward_thread`. One
   * that no operation made belongs to `root`, the context that asked for the backward pass, or to
   * the path that leads here where `root` is 0. */
  uint32_t (*enter_backward)(void *in, uint32_t name, int64_t sequence, uint64_t forward_thread,
                             uint32_t root, const void *function);
  /* The context that the same would have, without entering it. */
  uint32_t (*find_backward)(uint32_t name, int64_t sequence, uint64_t forward_thread,
                            uint32_t root);
  /* Ends the operation that was entered with this object, if the thread has one. Returns the context
   * of the innermost operation that is still open, 0 where there is none. */
  uint32_t (*leave)(void *in, const void *function);
  /* A range of the user's begins, which lasts beyond the call that opened it. Returns its number
   * and its thread for `close_range`, which any thread may call. */
  uint64_t (*open_range)(uint32_t name, void **thread);
  void (*close_range)(uint64_t range, void *thread);
  /* Work of an operation that was entered, as its shapes tell; added up by context. */
  void (*work)(uint32_t context, double flops, double bytes);
  /* What a visit of an operation is. It stands for all visits since the one before of which that
   * was said. Called once the visit has been left. */
  void (*sample)(uint32_t context, const TileprofVisit *visit);
} TileprofObserver;

#ifdef __cplusplus
}
#endif
