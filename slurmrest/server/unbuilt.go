package server

import (
	"github.com/gorilla/mux"

	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
)

// What belongs to parts that sbatchd doesn't have answers Slurm's own error for
// that, or, to a user who might not do it anyway, the one for that.

// refuseUnbuilt answers a change that nobody can make.
func (c *call) refuseUnbuilt(description, source string) {
	err := errno.NotSupported
	if c.who.Role != auth.Admin {
		err = errno.UserIDMissing
	}
	c.fail(err, description, source)
	c.reply(nil)
}

// notBuilt answers an operation of which nothing is there.
func notBuilt(c *call) {
	c.fail(errno.NotSupported, "", "")
	c.reply(nil)
}

// allocateJob answers POST /job/allocate: an allocation would be held for the
// length of the request, which needs interactive jobs.
func allocateJob(c *call) {
	body, ok := c.body()
	if !ok {
		return
	}
	if len(body) == 0 {
		c.fail(errno.RESTInvalidQuery, `Specifying either "job" or "hetjob" fields are required to allocate job`, "op_handler_alloc_job")
		c.reply(nil)
		return
	}
	c.fail(errno.NotSupported, "Job allocation request failed", "slurm_allocate_resources_blocking()")
	c.reply(nil)
}

// deleteNode answers DELETE /node/{node_name}: nodes are made and deleted by
// their pools, static ones by the configuration.
func deleteNode(c *call) {
	c.refuseUnbuilt("Failure to delete node "+mux.Vars(c.r)["node_name"], "op_handler_node")
}

// createNode answers POST /new/node.
func createNode(c *call) {
	body, ok := c.body()
	if !ok {
		return
	}
	if len(body) == 0 {
		c.fail(errno.DataPathNotFound, "Missing required field 'node_conf' in dictionary", "#/node_conf/")
		c.reply(nil)
		return
	}
	c.refuseUnbuilt("Failure to create node", "slurm_create_node()")
}

// postPartitions answers POST /partitions: they are in the configuration.
func postPartitions(c *call) {
	body, ok := c.body()
	if !ok {
		return
	}
	if len(body) == 0 {
		c.fail(errno.DataPathNotFound, "Missing required field 'partitions' in dictionary", "#/partitions/")
		c.fail(errno.RESTInvalidQuery, "Rejecting request. Failure parsing query", "_partitions_mod")
		c.reply(nil)
		return
	}
	c.refuseUnbuilt("Unable to update partition", "slurm_update_partition()")
}

// deletePartition answers DELETE /partition/{partition_name}.
func deletePartition(c *call) {
	c.refuseUnbuilt("Unable to delete partition", "slurm_delete_partition()")
}

// getReservations answers GET /reservations: there are none.
func getReservations(c *call) {
	if !c.since() {
		return
	}
	tail := c.now("last_update")
	c.reply(func(b []byte) []byte { return tail(append(b, `"reservations":[],`...)) })
}

// getReservation answers GET /reservation/{reservation_name}; where there are no
// reservations at all Slurm says that no error kept it from finding one.
func getReservation(c *call) {
	c.fail(errno.Success, "Unable to query reservations", "slurm_load_reservations()")
	c.reply(nil)
}

// postReservation answers POST /reservation.
func postReservation(c *call) {
	body, ok := c.body()
	if !ok {
		return
	}
	if len(body) == 0 {
		c.fail(errno.ReservationInvalid, "Reservation must be given.", "_mod_reservation")
		c.reply(nil)
		return
	}
	c.refuseUnbuilt("Failure to create reservation", "_mod_reservation")
}

// postReservations answers POST /reservations.
func postReservations(c *call) {
	body, ok := c.body()
	if !ok {
		return
	}
	if len(body) == 0 {
		c.fail(errno.RESTInvalidQuery, "No reservation descriptions specified in reservations array", "_parse_resv_desc_list")
		c.reply(nil)
		return
	}
	c.refuseUnbuilt("Failure to create reservation", "_mod_reservation")
}

// deleteReservation answers DELETE /reservation/{reservation_name}.
func deleteReservation(c *call) {
	c.refuseUnbuilt("Error deleting reservation "+mux.Vars(c.r)["reservation_name"], "slurm_delete_reservation")
}

// getConf answers GET /conf.
func getConf(c *call) { notBuilt(c) }
