/* A SQLite VFS that lets chosen writes, truncations and syncs fail, for tests of the store. */
#pragma once

#include <stdbool.h>

/** Make it the default VFS of the process. Aborts on failure. */
void fault_vfs_install(void);

/** Let the call after `after` more ones (write, truncate, sync; any file) fail with SQLite's result
 *  code rc; a write does half of its work first. sticky: and all that follow. Thread: any, while no
 *  call is under way. */
void fault_vfs_arm(int after, int rc, bool sticky);

/** Let everything work again; true if a call had failed. */
bool fault_vfs_disarm(void);
