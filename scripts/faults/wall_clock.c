/* The wall clock of the processes that preload this, shifted by the seconds that the file WALL_CLOCK holds (a double).
 *
 * Waits until a moment of the shifted clock are moved back, as the kernel's clock is not shifted; a wait in progress
 * ends when it would have. The monotonic clocks are left alone: no step of the wall clock moves them. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Deadlines of monotonic clocks, which a function may get too, are fewer seconds: they count from the start. */
#define SINCE_1970 1000000000

static const volatile double *shift;

__attribute__((constructor)) static void map_shift(void) {
  const char *path = getenv("WALL_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *memory = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) abort();
  close(file);
  shift = memory;
}

static struct timespec moved(const struct timespec *moment, double seconds) {
  struct timespec found = *moment;
  found.tv_sec += llround(seconds);
  return found;
}

/* Return the deadline as the kernel's clock has it, in `own` if it differs. */
static const struct timespec *real(const struct timespec *deadline, struct timespec *own) {
  if (!shift || !deadline || deadline->tv_sec < SINCE_1970) return deadline;
  *own = moved(deadline, -*shift);
  return own;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int clock_gettime(clockid_t clock, struct timespec *now) {
  int code = syscall(SYS_clock_gettime, clock, now);
  if (shift && !code && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *now = moved(now, *shift);
  return code;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec found;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &found);
  now->tv_sec = found.tv_sec;
  now->tv_usec = found.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds) *seconds = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *deadline) {
  static __typeof__(&pthread_cond_timedwait) next;
  struct timespec own;
  if (!next) next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (!next) next = NEXT(pthread_cond_timedwait);
  return next(condition, mutex, real(deadline, &own));
}

int sem_timedwait(sem_t *semaphore, const struct timespec *deadline) {
  static __typeof__(&sem_timedwait) next;
  struct timespec own;
  if (!next) next = NEXT(sem_timedwait);
  return next(semaphore, real(deadline, &own));
}

/* Abseil, in gRPC and TensorFlow, waits on futexes itself. */
long syscall(long number, ...) {
  static __typeof__(&syscall) next;
  long a[6];
  struct timespec own;
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(rest, long);
  va_end(rest);
  if (!next) next = NEXT(syscall);
  if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME)) a[3] = (long)real((const struct timespec *)a[3], &own);
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
