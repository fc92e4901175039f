// Package ask answers the checks of the datastore: the API server or etcd, and Typha, on the node. The probe alone
// links it.
package ask
