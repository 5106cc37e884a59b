// Package format prints the columns of squeue, sinfo and sacct: -o and -O with
// their widths, and sacct's --format tables. A field is declared once, with its
// letter, its name, its header and how its value comes from a record of the REST
// API; the commands choose records and order, this package turns them into text.
//
// Texts are Slurm's to the byte, since scripts cut them by column. The package
// knows no server, no flags and no clock: Context carries what values depend on.
package format
