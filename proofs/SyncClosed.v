(** A checker of closed sets of states, proved: what it accepts covers every interleaving.

    For a sync program with sizes given. Whoever searches writes down the states, each with the numbers of
    its successors; [certified] executes every step with the semantics of Sync.v and compares. It is extracted
    and run on programs of the library and on random ones. *)

From Coq Require Import Bool ZArith List FMapPositive.
From Titan Require Import Sync.
Import ListNotations.

Definition table : Type := PositiveMap.t (state * list positive).

(** ** Equality of states *)

Ltac decided :=
  intros; decide equality;
  auto using Z.eq_dec, Nat.eq_dec, bool_dec, list_eq_dec.

Definition key_dec (a b : key) : {a = b} + {a <> b}.
Proof. decided. Defined.
Definition extent_dec (a b : option (cell * Z)) : {a = b} + {a <> b}.
Proof. decided. decided. apply key_dec. Defined.
Definition name_dec (a b : option nat) : {a = b} + {a <> b}.
Proof. decided. Defined.
Definition proxy_dec (a b : proxy) : {a = b} + {a <> b}.
Proof. decided. Defined.
Definition marks_dec (a b : marks) : {a = b} + {a <> b}.
Proof. decided; apply list_eq_dec; decided; decided. Defined.
Definition mark_dec (a b : mark) : {a = b} + {a <> b}.
Proof. decided. decided. Defined.
Definition kind_dec (a b : option mark) : {a = b} + {a <> b}.
Proof. decided; auto using mark_dec. Defined.
Definition flight_access_dec (a b : flight_access) : {a = b} + {a <> b}.
Proof. decided; auto using key_dec, extent_dec, proxy_dec, kind_dec. Defined.
Definition flight_dec (a b : flight) : {a = b} + {a <> b}.
Proof.
  decided; auto using name_dec, flight_access_dec, list_eq_dec.
  apply list_eq_dec. decided. apply key_dec.
Defined.
Definition status_dec (a b : status) : {a = b} + {a <> b}.
Proof. decided. Defined.
Definition mbarrier_dec (a b : mbarrier) : {a = b} + {a <> b}.
Proof. decided; auto using status_dec, Z.eq_dec, list_eq_dec. Defined.
Definition named_dec (a b : named) : {a = b} + {a <> b}.
Proof. decided; auto using Z.eq_dec, list_eq_dec. Defined.
Definition content_dec (a b : content) : {a = b} + {a <> b}.
Proof. decided; auto using marks_dec, Z.eq_dec, list_eq_dec. Defined.
Definition groups_dec (a b : groups) : {a = b} + {a <> b}.
Proof. decided; auto using flight_dec, list_eq_dec. Defined.
Definition position_dec (a b : position) : {a = b} + {a <> b}.
Proof. decided; auto using Z.eq_dec, list_eq_dec. apply list_eq_dec. decided. Defined.
Definition state_dec (a b : state) : {a = b} + {a <> b}.
Proof.
  decided; auto using Z.eq_dec, flight_dec, position_dec, list_eq_dec; apply list_eq_dec;
    decided; auto using key_dec, mbarrier_dec, named_dec, content_dec, groups_dec.
  decided.
Defined.

Definition same_state (a b : state) : bool := if state_dec a b then true else false.

Lemma same_state_eq a b : same_state a b = true -> a = b.
Proof. unfold same_state. now destruct (state_dec a b). Qed.

(** ** The checker *)

Section Closed.
Variable p : program.

Definition is (m : table) (n : positive) (s : state) : bool :=
  match PositiveMap.find n m with Some (t, _) => same_state s t | None => false end.

Fixpoint followed (m : table) (s : state) (xs : list step_) (ns : list positive) : bool :=
  match xs, ns with
  | [], [] => true
  | x :: xs, n :: ns =>
    match apply_step p s x with Done t => is m n t && followed m s xs ns | _ => false end
  | _, _ => false
  end.

Definition closed_at (m : table) (s : state) (ns : list positive) : bool :=
  match state_fault p s, steps p s with
  | Done _, Done xs => followed m s xs ns
  | _, _ => false
  end.

Definition certified (m : table) (start : positive) : bool :=
  match initial p with Done s => is m start s | _ => false end
  && forallb (fun e => closed_at m (fst (snd e)) (snd (snd e))) (PositiveMap.elements m).

(** ** What it shows *)

Inductive run : state -> state -> Prop :=
| run_here s : run s s
| run_on s xs x t u : steps p s = Done xs -> In x xs -> apply_step p s x = Done t -> run t u -> run s u.

(** No race, no deadlock, and every step that is possible is one without a fault. *)
Definition good (s : state) : Prop :=
  state_fault p s = Done tt /\
  exists xs, steps p s = Done xs /\ forall x, In x xs -> exists t, apply_step p s x = Done t.

Definition stored (m : table) (s : state) : Prop := exists n ns, PositiveMap.find n m = Some (s, ns).

Lemma is_stored m n s : is m n s = true -> stored m s.
Proof.
  unfold is, stored. destruct (PositiveMap.find n m) as [[t ns]|] eqn:F; [|easy].
  intros E. apply same_state_eq in E. subst t. now exists n, ns.
Qed.

Lemma followed_all m s xs : forall ns, followed m s xs ns = true ->
  forall x, In x xs -> exists t, apply_step p s x = Done t /\ stored m t.
Proof.
  induction xs as [|y xs IH]; intros [|n ns]; cbn [followed]; try easy.
  intros E x [<-|I]; destruct (apply_step p s y) as [t| |] eqn:A; try easy;
    apply andb_true_iff in E; destruct E as [H F].
  - exists t. split; [easy|]. now apply is_stored with n.
  - now apply (IH ns).
Qed.

Lemma closed_good m s ns : closed_at m s ns = true -> good s /\
  forall xs x t, steps p s = Done xs -> In x xs -> apply_step p s x = Done t -> stored m t.
Proof.
  unfold closed_at, good. destruct (state_fault p s) as [[]| |]; try easy.
  destruct (steps p s) as [xs| |]; try easy. intros F. split.
  - split; [easy|]. exists xs. split; [easy|]. intros x I.
    destruct (followed_all m s xs ns F x I) as [t [A _]]. now exists t.
  - intros ys x t [= <-] I A. destruct (followed_all m s xs ns F x I) as [t' [A' S]].
    rewrite A in A'. now injection A' as ->.
Qed.

Theorem certified_safe m n : certified m n = true ->
  forall s t, initial p = Done s -> run s t -> good t.
Proof.
  unfold certified. intros C s t I R. rewrite I in C. apply andb_true_iff in C. destruct C as [S A].
  assert (G : forall u, stored m u -> good u /\
    forall xs x v, steps p u = Done xs -> In x xs -> apply_step p u x = Done v -> stored m v).
  { intros u (k & ns & F). apply closed_good with ns. rewrite forallb_forall in A.
    now apply (A (k, (u, ns))), PositiveMap.elements_correct. }
  apply is_stored in S. revert S. clear I. induction R as [s|s xs x u t St Ix Ap R IH]; intros S.
  - now apply G.
  - apply IH. now apply (proj2 (G s S)) with xs x.
Qed.

End Closed.
