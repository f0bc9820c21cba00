#include "actions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/server/token.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/links.h"
#include "control/preflight.h"
#include "io/netdev.h"
#include "io/steer.h"
#include "schema/store_tokens.h"

#define FIRST_TOKEN "admin" /* its id */

int action_open_store(const struct options *o, struct store **out, struct error *err)
{
	const char *path = o->database;

	/* The default directory is made; a mistyped one of the operator's own is not. */
	if (!strcmp(path, OPTIONS_DATABASE) && mkdir(OPTIONS_DATABASE_DIR, 0750) && errno != EEXIST)
		return error_set(err, -errno, "%s: %s", OPTIONS_DATABASE_DIR, strerror(errno));
	return store_open(path, out, err);
}

/* True if it was not there. */
static bool add_name(struct options *o, const char *name, struct error *err, int *rc)
{
	for (unsigned i = 0; i < o->n_ifaces; i++)
		if (!strcmp(o->ifaces[i], name))
			return false;
	if (o->n_ifaces == IFACES_MAX) {
		*rc = error_set(err, -EINVAL, "--interface %s: at most %u of them", name,
				IFACES_MAX);
		return false;
	}
	o->ifaces[o->n_ifaces++] = name;
	return true;
}

/* What is to be served for an interface that was named. */
static int add_below(struct options *o, const struct links *ls, const char *name, struct error *err)
{
	char names[IFACES_MAX][IF_NAMESIZE];
	int n = links_below(ls, name, names, IFACES_MAX), rc = 0;

	if (n == 0)
		return error_set(err, -ENODEV, "%s: the bond has no slave", name);
	if (n < 0 || !strcmp(names[0], name)) { /* itself; or none, which is found out later */
		(void)add_name(o, name, err, &rc);
		return rc;
	}
	for (int i = 0; !rc && i < n; i++) {
		char *keep = o->iface_names[o->n_ifaces]; /* by the place it would get */

		memcpy(keep, names[i], sizeof(names[i]));
		if (add_name(o, keep, err, &rc))
			log_info("concuryd", "%s: served by %s", name, keep);
	}
	return rc;
}

int action_expand_interfaces(struct options *o, struct error *err)
{
	struct options as_named = *o;
	struct links ls = {0};
	struct rtnl rtnl;

	int rc = rtnl_open(&rtnl, err);
	if (rc)
		return rc;
	rc = links_read(&ls, &rtnl);
	rtnl_close(&rtnl);
	if (rc < 0)
		return error_set(err, rc, "cannot read the interfaces: %s", strerror(-rc));
	o->n_ifaces = 0;
	rc = 0;
	for (unsigned i = 0; !rc && i < as_named.n_ifaces; i++)
		rc = add_below(o, &ls, as_named.ifaces[i], err);
	links_free(&ls);
	return rc;
}

int action_find_interfaces(const struct options *o, struct error *err)
{
	struct xsk_iface dev;
	int rc = 0;

	for (unsigned i = 0; !rc && i < o->n_ifaces; i++)
		rc = netdev_read(o->ifaces[i], &dev, err);
	return rc;
}

int action_detach(const struct options *o)
{
	struct error err;
	int status = 0;

	for (unsigned i = 0; i < o->n_ifaces; i++) {
		if (!steer_detach(o->ifaces[i], &err)) {
			log_info("concuryd",
				 "%s: steer is detached: packets of VIPs reach this host's kernel "
				 "now (a concuryd that still runs serves them no longer)",
				 o->ifaces[i]);
			continue;
		}
		log_error("concuryd", "%s", err.message);
		status = 1;
	}
	return status;
}

int action_check(const struct options *o)
{
	struct preflight p = {.n_ifaces = o->n_ifaces,
			      .ifaces = o->ifaces,
			      .database = o->database,
			      .state_dir = o->state_dir,
			      .n_workers = (unsigned)o->n_workers,
			      .n_flows = o->n_flows,
			      .keep_ipc_lock = o->keep_ipc_lock,
			      .listen = o->listen[0]};
	struct persist_state boot = {0};
	struct store *store = NULL;
	struct error err = {""};
	int rc = 0;

	if (access(o->database, F_OK) == 0) {
		rc = store_open(o->database, &store, &err);
		if (!rc)
			rc = store_load(store, &boot, &err);
	}
	if (rc)
		p.database_fault = err.message;
	p.database_in_use = rc == -EBUSY;
	if (!rc && !preflight_take_state(&p, &boot))
		p.database_fault = "out of memory";
	unsigned n_blocking = preflight_run(&p, stdout);
	preflight_drop(&p);
	if (!rc)
		persist_state_free(&boot);
	store_close(store);
	return n_blocking ? 1 : 0;
}

/* --- the first token -----------------------------------------------------------------------------
 */

/* The running one has the database to itself, so it must be asked. */
static void explain_busy(const struct options *o)
{
	const char *path = "PATH";
	unsigned i = 0;

	while (i < o->n_listen && strncmp(o->listen[i], "unix:", 5) != 0)
		i++;
	if (i < o->n_listen)
		path = o->listen[i] + 5;
	log_error("concuryd",
		  "database %s: in use by a running concuryd. Stop it first, or ask it over a Unix "
		  "socket (--listen unix:PATH) as root: curl --unix-socket %s -X PUT "
		  "http://localhost/v1/tokens/" FIRST_TOKEN " -H 'Content-Type: application/json' "
		  "-d '{\"role\": \"admin\"}'",
		  o->database, path);
}

static int write_first_token(const struct options *o, const char *text, struct error *err)
{
	struct store_token t = {.id = FIRST_TOKEN, .role = "admin", .created_s = clock_wall_s()};
	struct store *store = NULL;

	if (!token_hash(text, t.hash))
		return error_set(err, -EIO, "no hash could be made");
	int rc = action_open_store(o, &store, err);
	if (!rc)
		rc = store_put_token(store, &t, err);
	store_close(store);
	return rc;
}

int action_init_token(const struct options *o)
{
	char text[ACCESS_TOKEN_LEN];
	struct error err = {""};

	access_token_make(text);
	int rc = write_first_token(o, text, &err);
	if (rc == -EBUSY)
		explain_busy(o);
	else if (rc)
		log_error("concuryd", "%s", err.message);
	if (rc)
		return 1;
	log_info("concuryd",
		 "%s: token '" FIRST_TOKEN "' with role admin; it is shown only now, and "
		 "any earlier one of that name opens nothing any more",
		 o->database);
	return printf("%s\n", text) < 0 || fflush(stdout) != 0;
}
