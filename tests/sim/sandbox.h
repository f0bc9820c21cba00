/* A /dev/shm of the process's own, which the kernel takes away with it however it ends. */
#pragma once

/** From now on what this process (single-threaded) and its children put below /dev/shm is in a file
 *  system of their own. Where the kernel does not let them have one, they share the machine's. */
void sandbox_enter(void);
