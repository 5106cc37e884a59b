-- The wanted end state of every migration, by hand. A test compares the two.

CREATE TABLE meta (
  name VARCHAR(64) NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
);

CREATE TABLE leader (
  id INTEGER PRIMARY KEY,
  holder VARCHAR(255) NOT NULL,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL
);

CREATE TABLE event (
  seq INTEGER PRIMARY KEY,
  at BIGINT NOT NULL,
  actor VARCHAR(255) NOT NULL,
  kind VARCHAR(64) NOT NULL,
  job BIGINT NOT NULL,
  node VARCHAR(255) NOT NULL,
  tag VARCHAR(255) NOT NULL,
  data BLOB
);

CREATE TABLE job (
  id INTEGER PRIMARY KEY,
  live INTEGER NOT NULL,
  array_id BIGINT NOT NULL,
  uid BIGINT NOT NULL,
  user_name VARCHAR(255) NOT NULL,
  account VARCHAR(255) NOT NULL,
  job_name VARCHAR(1024) NOT NULL,
  part VARCHAR(255) NOT NULL,
  state INTEGER NOT NULL,
  submitted BIGINT NOT NULL,
  started BIGINT NOT NULL,
  ended BIGINT NOT NULL,
  doc BLOB NOT NULL
);
CREATE INDEX job_live ON job (live);
CREATE INDEX job_array ON job (array_id);
CREATE INDEX job_ended ON job (ended);
CREATE INDEX job_uid ON job (uid, ended);

CREATE TABLE run (
  job BIGINT NOT NULL,
  restart BIGINT NOT NULL,
  state INTEGER NOT NULL,
  allocated BIGINT NOT NULL,
  ended BIGINT NOT NULL,
  doc BLOB NOT NULL,
  PRIMARY KEY (job, restart)
);

CREATE TABLE run_node (
  node VARCHAR(255) NOT NULL,
  job BIGINT NOT NULL,
  restart BIGINT NOT NULL,
  PRIMARY KEY (node, job, restart)
);

CREATE TABLE node (
  name VARCHAR(255) NOT NULL PRIMARY KEY,
  doc BLOB NOT NULL
);

CREATE TABLE instance (
  tag VARCHAR(255) NOT NULL PRIMARY KEY,
  state VARCHAR(16) NOT NULL,
  gone BIGINT NOT NULL,
  doc BLOB NOT NULL
);
CREATE INDEX instance_gone ON instance (gone);

CREATE TABLE content (
  hash VARCHAR(64) NOT NULL PRIMARY KEY,
  data BLOB NOT NULL
);

CREATE TABLE idempotency (
  uid BIGINT NOT NULL,
  token VARCHAR(255) NOT NULL,
  job BIGINT NOT NULL,
  at BIGINT NOT NULL,
  digest VARCHAR(64) NOT NULL DEFAULT '',
  warning BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (uid, token)
);

CREATE TABLE acct_record (
  kind VARCHAR(16) NOT NULL,
  name VARCHAR(255) NOT NULL,
  doc BLOB NOT NULL,
  PRIMARY KEY (kind, name)
);

CREATE TABLE acct_txn (
  seq INTEGER PRIMARY KEY,
  at BIGINT NOT NULL,
  action VARCHAR(64) NOT NULL,
  actor VARCHAR(255) NOT NULL,
  place TEXT NOT NULL,
  info TEXT NOT NULL
);
CREATE INDEX acct_txn_at ON acct_txn (at);

