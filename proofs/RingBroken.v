(** Rings that are broken on purpose: for each a fault that can be reached.

    So the predicates of [Ring.v] bite, and each condition of [right] is needed. *)

From Coq Require Import Arith Lia.
From Titan Require Import Count Ring.

Ltac computed := solve [reflexivity | vm_compute; first [lia | discriminate | intuition lia]].
(* One step, and the new state in normal form: else its numbers are computed again and again. *)
Ltac go rule := match goal with R : reachable ?D ?P ?C ?K ?L ?N ?E ?f ?e ?s |- _ =>
  let R' := fresh in
  eassert (R' : reachable D P C K L N E f e _); [eapply reach_step; [exact R|rule; computed]|];
  match type of R' with reachable _ _ _ _ _ _ _ _ _ ?t =>
    let n := eval cbv in t in
    clear R; assert (R : reachable D P C K L N E f e n) by (vm_cast_no_check R'); clear R'
  end end.

(** One tile into the only stage, with K = 1. *)
Ltac fill := go ltac:(eapply acquire with (p := 0)); go ltac:(eapply expect with (p := 0));
  go ltac:(eapply issue with (p := 0)); go ltac:(eapply chunk with (p := 0) (g := 0)).

Ltac stuck := let s' := fresh in let H := fresh in
  intros s' H; inversion H; subst; clear H;
  repeat match goal with
  | H : ?i < 1 |- _ => assert (i = 0) by lia; clear H; subst i
  end; vm_compute in *; try discriminate; try lia; intuition (try lia; try congruence).

(** The producer does not flip the parity: nothing ever starts. *)
Theorem unflipped_parity_deadlocks : exists s,
  reachable 1 1 1 1 0 1 1 false false s /\ deadlock 1 1 1 1 0 1 1 false false s.
Proof.
  exists start. split; [constructor|]. split.
  - intros [H _]. destruct (H 0 ltac:(lia)). discriminate.
  - stuck.
Qed.

(** The empty barrier counts one arrival less than there are consumers: a stage is filled again while
    the slower consumer reads it. *)
Theorem count_one_short_overwrites : exists s,
  reachable 1 1 2 1 0 2 1 true false s /\ faulty 1 1 2 0 2 1 true s.
Proof.
  pose proof (reach_start 1 1 2 1 0 2 1 true false) as R. fill.
  go ltac:(eapply read with (i := 0)). go ltac:(eapply read with (i := 1)).
  go ltac:(eapply drain with (i := 0)). go ltac:(eapply release with (i := 0)).
  go ltac:(eapply acquire with (p := 0)). go ltac:(eapply expect with (p := 0)).
  eexists. split; [exact R|]. eapply overwrite_in_use with (i := 1) (t := 0) (p := 0); computed.
Qed.

(** It counts one more: the producer waits for ever. *)
Theorem count_one_more_deadlocks : exists s,
  reachable 1 1 1 1 0 2 2 true false s /\ deadlock 1 1 1 1 0 2 2 true false s.
Proof.
  pose proof (reach_start 1 1 1 1 0 2 2 true false) as R. fill.
  go ltac:(eapply read with (i := 0)). go ltac:(eapply drain with (i := 0)).
  go ltac:(eapply release with (i := 0)).
  eexists. split; [exact R|]. split.
  - intros [H _]. destruct (H 0 ltac:(lia)). discriminate.
  - stuck.
Qed.

(** The consumer releases before its group is done: the copy races with the read. *)
Theorem release_before_drain_races : exists s,
  reachable 1 1 1 1 0 2 1 true true s /\ faulty 1 1 1 0 2 1 true s.
Proof.
  pose proof (reach_start 1 1 1 1 0 2 1 true true) as R. fill.
  go ltac:(eapply read with (i := 0)). go ltac:(eapply release with (i := 0)).
  go ltac:(eapply acquire with (p := 0)). go ltac:(eapply expect with (p := 0)).
  go ltac:(eapply issue with (p := 0)).
  eexists. split; [exact R|]. eapply data_race with (i := 0) (t := 0) (p := 0); computed.
Qed.

(** As many groups deferred as there are stages: nobody can go on. *)
Theorem deferred_too_deep_deadlocks : exists s,
  reachable 1 1 1 1 1 2 1 true false s /\ deadlock 1 1 1 1 1 2 1 true false s.
Proof.
  pose proof (reach_start 1 1 1 1 1 2 1 true false) as R. fill.
  go ltac:(eapply read with (i := 0)). go ltac:(eapply drain with (i := 0)).
  eexists. split; [exact R|]. split.
  - intros [H _]. destruct (H 0 ltac:(lia)). discriminate.
  - stuck.
Qed.
