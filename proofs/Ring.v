(** The ring: a pipeline of [D] stages, for every depth, every number of producers and consumers,
    every number of tiles.

    [P] producers fill the stages in turn: each waits until the stage is empty, arrives at its full
    barrier and expects the bytes of its own copy, and issues that copy, which completes in [K]
    chunks at any time. [C] consumers wait for the full barrier, read the tile while their group is
    in flight, and release the stage by an arrival at its empty barrier, once the group is done; with
    deferred release up to [L] groups stay in flight (L = 0: the release follows its own read).

    Barriers count the phases that are complete, as titan/sync does, and waits see the parity alone.
    Faults are predicates of states, named by the rule that TITAN reports.

    Three ways to break the machine are parameters: [E], the count of the empty barriers (C in a
    correct ring); [flip], whether the producer waits with flipped parity; [early], whether consumers
    release before their group is done. *)

From Coq Require Import Arith Lia.
From Titan Require Import Count.

Section Ring.

Variables D P C K L N : nat.  (* stages; producers; consumers; chunks; groups deferred; tiles *)
Variable E : nat.             (* arrivals that an empty barrier counts *)
Variables flip early : bool.

Record state := mk {
  pt : nat -> nat;                (* of a producer: its tile *)
  pa : nat -> nat;                (* and where it stands: 0 waits, 1 arrives, 2 issues *)
  left : nat -> nat -> nat;       (* of a producer and a stage: chunks of its copy in flight *)
  car : nat -> nat -> nat;        (* the tile that this copy carries *)
  cont : nat -> nat -> option nat;(* the tile that its part of the stage holds *)
  fph : nat -> nat;               (* of a full barrier: phases complete, *)
  farr : nat -> nat;              (* arrivals in the open phase, *)
  ftx : nat -> nat;               (* bytes outstanding *)
  eph : nat -> nat;               (* of an empty barrier: phases complete, *)
  earr : nat -> nat;              (* arrivals in the open phase *)
  ct : nat -> nat;                (* of a consumer: tiles whose read has been issued, *)
  cd : nat -> nat;                (* reads that are done, *)
  cr : nat -> nat                 (* stages released *)
}.

Definition start : state :=
  mk (fun _ => 0) (fun _ => 0) (fun _ _ => 0) (fun _ _ => 0) (fun _ _ => None)
     (fun _ => 0) (fun _ => 0) (fun _ => 0) (fun _ => 0) (fun _ => 0)
     (fun _ => 0) (fun _ => 0) (fun _ => 0).

Definition stage (t : nat) := t mod D.
Definition parity (n : nat) := n mod 2.

(** The parity that a producer waits for: that of the phase before the one it will fill. *)
Definition empty_parity (t : nat) := parity (t / D + (if flip then 1 else 0)).
Definition full_parity (t : nat) := parity (t / D).

(** A parity wait passes when the phase bit differs. *)
Definition empty_passes (s : state) (t : nat) := parity (eph s (stage t)) <> empty_parity t.
Definition full_passes (s : state) (t : nat) := parity (fph s (stage t)) <> full_parity t.

(** A consumer's next operation is a wait while it has tiles left and not too many groups. *)
Definition wants (s : state) (i : nat) := ct s i < N /\ ct s i <= cr s i + L.

(** Whether a barrier's phase completes with these arrivals and bytes. *)
Definition over (count arrivals bytes : nat) : bool := (arrivals =? count) && (bytes =? 0).

Definition count_full (s : state) (g a x : nat) :=
  (upd (fph s) g (if over P a x then S (fph s g) else fph s g),
   upd (farr s) g (if over P a x then 0 else a),
   upd (ftx s) g x).

Definition upd2 {A} (f : nat -> nat -> A) p g v : nat -> nat -> A := upd f p (upd (f p) g v).

Inductive step (s : state) : state -> Prop :=
| acquire p : p < P -> pa s p = 0 -> pt s p < N -> empty_passes s (pt s p) ->
    step s (mk (pt s) (upd (pa s) p 1) (left s) (car s) (cont s)
               (fph s) (farr s) (ftx s) (eph s) (earr s) (ct s) (cd s) (cr s))
| expect p f a x : p < P -> pa s p = 1 ->
    (f, a, x) = count_full s (stage (pt s p)) (S (farr s (stage (pt s p))))
                           (ftx s (stage (pt s p)) + K) ->
    step s (mk (pt s) (upd (pa s) p 2) (left s) (car s) (cont s)
               f a x (eph s) (earr s) (ct s) (cd s) (cr s))
| issue p : p < P -> pa s p = 2 ->
    step s (mk (upd (pt s) p (S (pt s p))) (upd (pa s) p 0)
               (upd2 (left s) p (stage (pt s p)) K)
               (upd2 (car s) p (stage (pt s p)) (pt s p))
               (upd2 (cont s) p (stage (pt s p)) None)
               (fph s) (farr s) (ftx s) (eph s) (earr s) (ct s) (cd s) (cr s))
| chunk p g f a x : p < P -> g < D -> left s p g > 0 ->
    (f, a, x) = count_full s g (farr s g) (ftx s g - 1) ->
    step s (mk (pt s) (pa s) (upd2 (left s) p g (left s p g - 1)) (car s)
               (upd2 (cont s) p g (if left s p g =? 1 then Some (car s p g) else None))
               f a x (eph s) (earr s) (ct s) (cd s) (cr s))
| read i : i < C -> wants s i -> full_passes s (ct s i) ->
    step s (mk (pt s) (pa s) (left s) (car s) (cont s)
               (fph s) (farr s) (ftx s) (eph s) (earr s) (upd (ct s) i (S (ct s i))) (cd s) (cr s))
| drain i : i < C -> cd s i < ct s i ->
    step s (mk (pt s) (pa s) (left s) (car s) (cont s)
               (fph s) (farr s) (ftx s) (eph s) (earr s) (ct s) (upd (cd s) i (S (cd s i))) (cr s))
| release i : i < C -> ~ wants s i -> cr s i < N ->
    (if early then cr s i < ct s i else cr s i < cd s i) ->
    step s (mk (pt s) (pa s) (left s) (car s) (cont s) (fph s) (farr s) (ftx s)
               (upd (eph s) (stage (cr s i))
                    (if S (earr s (stage (cr s i))) =? E then S (eph s (stage (cr s i)))
                     else eph s (stage (cr s i))))
               (upd (earr s) (stage (cr s i))
                    (if S (earr s (stage (cr s i))) =? E then 0 else S (earr s (stage (cr s i)))))
               (ct s) (cd s) (upd (cr s) i (S (cr s i)))).

Inductive reachable : state -> Prop :=
| reach_start : reachable start
| reach_step s s' : reachable s -> step s s' -> reachable s'.

Definition finished (s : state) :=
  (forall p, p < P -> pt s p = N /\ pa s p = 0) /\ (forall i, i < C -> cr s i = N).

(** ** Faults, by the code that TITAN reports *)

(** A consumer's group is reading tile [t]. *)
Definition reading (s : state) (i t : nat) := i < C /\ cd s i <= t < ct s i.

Inductive faulty (s : state) : Prop :=
| data_race i t p : reading s i t -> p < P -> left s p (stage t) > 0 -> faulty s      (* TTN201 *)
| overwrite_in_flight p :                                                             (* TTN202 *)
    p < P -> pa s p = 2 -> left s p (stage (pt s p)) > 0 -> faulty s
| overwrite_in_use i t p : reading s i t ->                                           (* TTN202 *)
    p < P -> pa s p = 2 -> stage (pt s p) = stage t -> faulty s
| early_read i t p : reading s i t -> p < P -> cont s p (stage t) = None -> faulty s  (* TTN203 *)
| stale_read i t p u : reading s i t -> p < P ->                                      (* TTN204 *)
    cont s p (stage t) = Some u -> u <> t -> faulty s
| over_arrival_full p : p < P -> pa s p = 1 -> farr s (stage (pt s p)) >= P -> faulty s   (* TTN206 *)
| over_arrival_empty i : i < C -> ~ wants s i -> cr s i < cd s i ->                       (* TTN206 *)
    earr s (stage (cr s i)) >= E -> faulty s
| bytes_mismatch p g : p < P -> g < D -> left s p g > 0 -> ftx s g = 0 -> faulty s        (* TTN207 *)
| wrong_empty_phase p : p < P -> pa s p = 0 -> pt s p < N ->                              (* TTN212 *)
    empty_passes s (pt s p) -> eph s (stage (pt s p)) <> pt s p / D -> faulty s
| missed_empty_phase p : p < P -> pa s p = 0 -> pt s p < N ->                             (* TTN212 *)
    eph s (stage (pt s p)) > pt s p / D -> faulty s
| wrong_full_phase i : i < C -> wants s i ->                                              (* TTN212 *)
    full_passes s (ct s i) -> fph s (stage (ct s i)) <> ct s i / D + 1 -> faulty s
| missed_full_phase i : i < C -> wants s i ->                                             (* TTN212 *)
    fph s (stage (ct s i)) > ct s i / D + 1 -> faulty s.

(** Nothing can go on although not all are at their end. *)
Definition deadlock (s : state) := ~ finished s /\ forall s', ~ step s s'.

(** All are at their end, and a copy or a read is in flight (TTN211). *)
Definition leak (s : state) :=
  finished s /\ ((exists p g, p < P /\ g < D /\ left s p g > 0) \/
                 (exists i, i < C /\ cd s i < ct s i)).

(** ** The invariant *)

Definition arrived (s : state) (p : nat) := pt s p + (if pa s p =? 2 then 1 else 0).

(** Chunks that producer [p] still owes stage [g] in the open phase. *)
Definition owed (s : state) (g p : nat) :=
  left s p g + (if andb (pa s p =? 2) (stage (pt s p) =? g) then K else 0).

Notation use := (Count.use D).

Record inv (s : state) : Prop := {
  i_full_sum g : g < D -> sum P (fun p => use (arrived s p) g) = P * fph s g + farr s g;
  i_full_low p g : p < P -> g < D -> fph s g <= use (arrived s p) g;
  i_full_high p g : p < P -> g < D -> use (arrived s p) g <= fph s g + 1;
  i_bytes g : g < D -> ftx s g = sum P (owed s g);
  i_open g : g < D -> farr s g = P -> ftx s g > 0;
  i_flight p g : p < P -> g < D -> left s p g > 0 ->
    use (pt s p) g = fph s g + 1 /\ car s p g = D * fph s g + g;
  i_place p : p < P -> pa s p <= 2;
  i_tiles p : p < P -> pt s p <= N /\ (pa s p > 0 -> pt s p < N);
  i_window p g : p < P -> g < D -> use (pt s p) g <= eph s g + 1;
  i_past p : p < P -> pa s p > 0 -> pt s p / D <= eph s (stage (pt s p));
  i_issuing p : p < P -> pa s p = 2 -> fph s (stage (pt s p)) = pt s p / D;
  i_cont p g : p < P -> g < D -> left s p g = 0 -> use (pt s p) g > 0 ->
    cont s p g = Some (D * (use (pt s p) g - 1) + g);
  i_order i : i < C -> cr s i <= cd s i /\ cd s i <= ct s i /\ ct s i <= N;
  i_deferred i : i < C -> ct s i <= cr s i + L + 1;
  i_read i g : i < C -> g < D -> use (ct s i) g <= fph s g;
  i_empty_low i g : i < C -> g < D -> eph s g <= use (cr s i) g;
  i_empty_high i g : i < C -> g < D -> use (cr s i) g <= eph s g + 1;
  i_empty_sum g : g < D -> sum C (fun i => use (cr s i) g) = C * eph s g + earr s g;
  i_empty_open g : g < D -> earr s g < C
}.

Hypothesis D_pos : D >= 1.
Hypothesis P_pos : P >= 1.
Hypothesis C_pos : C >= 1.
Hypothesis K_pos : K >= 1.
Hypothesis L_small : L < D.
Hypothesis count_right : E = C.
Hypothesis flipped : flip = true.
Hypothesis not_early : early = false.

Lemma stage_small t : stage t < D.
Proof. apply divmod, D_pos. Qed.

Local Hint Resolve stage_small : core.

Lemma use_stage t : use t (stage t) = t / D.
Proof. apply use_here, D_pos. Qed.

(** *** What the invariant says of the window between the agents *)

Section Window.
Variable s : state.
Hypothesis I : inv s.

Lemma arrived_at p : pa s p <> 2 -> arrived s p = pt s p.
Proof. unfold arrived. destruct (Nat.eqb_spec (pa s p) 2); lia. Qed.

Lemma ct_cr i g : i < C -> use (cr s i) g <= use (ct s i) g.
Proof. intros Hi. apply use_mono. pose proof (i_order s I i Hi). lia. Qed.

(** Any producer, any consumer, any stage: all within one phase. *)
Lemma eph_fph g : g < D -> eph s g <= fph s g.
Proof.
  intros Hg. pose proof (i_empty_low s I 0 g C_pos Hg). pose proof (i_read s I 0 g C_pos Hg).
  pose proof (ct_cr 0 g C_pos). lia.
Qed.

(** A producer past its wait: the stage has been emptied as often as it was filled. *)
Lemma past_exact p : p < P -> pa s p > 0 ->
  eph s (stage (pt s p)) = pt s p / D /\ fph s (stage (pt s p)) = pt s p / D.
Proof.
  intros Hp Ha. pose proof (i_past s I p Hp Ha) as H1.
  pose proof (eph_fph (stage (pt s p)) (stage_small _)) as H2.
  pose proof (i_place s I p Hp). destruct (Nat.eq_dec (pa s p) 2) as [A|A].
  - pose proof (i_issuing s I p Hp A). lia.
  - pose proof (i_full_low s I p (stage (pt s p)) Hp (stage_small _)) as H3.
    rewrite arrived_at, use_stage in H3 by easy. lia.
Qed.

(** A phase that is complete, or about to be, was arrived for after its wait. *)
Lemma fph_window g : g < D -> fph s g <= eph s g + 1.
Proof.
  intros Hg. pose proof (i_full_low s I 0 g P_pos Hg) as H1.
  pose proof (i_window s I 0 g P_pos Hg) as H2. unfold arrived in H1.
  destruct (Nat.eqb_spec (pa s 0) 2) as [A|A].
  - replace (pt s 0 + 1) with (S (pt s 0)) in H1 by lia. rewrite use_next in H1.
    destruct (Nat.eq_dec (pt s 0 mod D) g) as [G|G]; [|lia].
    pose proof (past_exact 0 P_pos ltac:(lia)) as H3. unfold stage in H3. rewrite G in H3. lia.
  - rewrite Nat.add_0_r in H1. lia.
Qed.

(** A producer at its wait stands at most one phase ahead of the barrier, and never behind. *)
Lemma empty_near p : p < P -> pa s p = 0 ->
  eph s (stage (pt s p)) <= pt s p / D <= eph s (stage (pt s p)) + 1.
Proof.
  intros Hp Ha. pose proof (i_window s I p (stage (pt s p)) Hp (stage_small _)) as H1.
  pose proof (i_full_low s I p (stage (pt s p)) Hp (stage_small _)) as H2.
  rewrite arrived_at in H2 by lia. rewrite use_stage in H1, H2.
  pose proof (eph_fph (stage (pt s p)) (stage_small _)). lia.
Qed.

Lemma full_near i : i < C ->
  ct s i / D <= fph s (stage (ct s i)) <= ct s i / D + 1.
Proof.
  intros Hi. pose proof (i_read s I i (stage (ct s i)) Hi (stage_small _)) as H1.
  rewrite use_stage in H1. pose proof (fph_window (stage (ct s i)) (stage_small _)) as H2.
  pose proof (i_empty_low s I i (stage (ct s i)) Hi (stage_small _)) as H3.
  pose proof (ct_cr i (stage (ct s i)) Hi) as H4. rewrite use_stage in H4. lia.
Qed.

Lemma empty_pass_exact p : p < P -> pa s p = 0 -> empty_passes s (pt s p) ->
  eph s (stage (pt s p)) = pt s p / D.
Proof.
  intros Hp Ha Hw. pose proof (empty_near p Hp Ha) as H. unfold empty_passes, empty_parity in Hw.
  rewrite flipped in Hw. destruct (Nat.eq_dec (eph s (stage (pt s p)) + 1) (pt s p / D)); [|lia].
  exfalso. apply Hw. rewrite <- e. unfold parity.
  replace (eph s (stage (pt s p)) + 1 + 1) with (eph s (stage (pt s p)) + 1 * 2) by lia.
  rewrite Nat.mod_add by lia. easy.
Qed.

Lemma full_pass_exact i : i < C -> full_passes s (ct s i) ->
  fph s (stage (ct s i)) = ct s i / D + 1.
Proof.
  intros Hi Hw. pose proof (full_near i Hi) as H. unfold full_passes, full_parity in Hw.
  destruct (Nat.eq_dec (fph s (stage (ct s i))) (ct s i / D)) as [e|]; [|lia].
  exfalso. apply Hw. now rewrite e.
Qed.

(** A stage that a consumer holds is full, is not being filled, and nobody is about to. *)
Lemma held i t p : i < C -> cr s i <= t < ct s i -> p < P ->
  left s p (stage t) = 0 /\ use (pt s p) (stage t) = t / D + 1 /\
  ~ (pa s p = 2 /\ stage (pt s p) = stage t).
Proof.
  intros Hi Ht Hp. pose proof (stage_small t) as Hg.
  pose proof (use_past D D_pos (ct s i) t ltac:(lia)) as H1.
  pose proof (use_before D D_pos (cr s i) t ltac:(lia)) as H2.
  fold (stage t) in *. pose proof (i_read s I i (stage t) Hi Hg) as H3.
  pose proof (i_empty_low s I i (stage t) Hi Hg) as H4.
  pose proof (i_window s I p (stage t) Hp Hg) as H5.
  pose proof (i_full_low s I p (stage t) Hp Hg) as H6.
  assert (Q : ~ (pa s p = 2 /\ stage (pt s p) = stage t)).
  { intros [A G]. pose proof (past_exact p Hp ltac:(lia)) as H7. rewrite G in H7. lia. }
  assert (Z : left s p (stage t) = 0).
  { destruct (Nat.eq_dec (left s p (stage t)) 0) as [|Z]; [easy|exfalso].
    pose proof (i_flight s I p (stage t) Hp Hg ltac:(lia)) as H7. lia. }
  split; [easy|]. split; [|easy].
  unfold arrived in H6. destruct (Nat.eqb_spec (pa s p) 2) as [A|A].
  - replace (pt s p + 1) with (S (pt s p)) in H6 by lia. rewrite use_next in H6.
    destruct (Nat.eq_dec (pt s p mod D) (stage t)) as [G|G]; [exfalso; apply Q; auto|lia].
  - rewrite Nat.add_0_r in H6. lia.
Qed.

Lemma arrival_room p : p < P -> pa s p = 1 -> farr s (stage (pt s p)) < P.
Proof.
  intros Hp Ha. set (g := stage (pt s p)).
  pose proof (past_exact p Hp ltac:(lia)) as [_ Hf]. fold g in Hf.
  pose proof (i_full_sum s I g (stage_small _)) as Hs.
  pose proof (sum_high P _ (fph s g + 1) (fun q Hq => i_full_high s I q g Hq (stage_small _))) as Hh.
  cbv beta in Hh. destruct (Nat.eq_dec (farr s g) P) as [F|F]; [exfalso|nia].
  pose proof (sum_full P _ (fph s g + 1) (fun q Hq => i_full_high s I q g Hq (stage_small _))
    ltac:(cbv beta; nia) p Hp) as H2. cbv beta in H2.
  rewrite arrived_at in H2 by lia. unfold g in H2 at 1. rewrite use_stage in H2. lia.
Qed.

Lemma bytes_match p g : p < P -> g < D -> left s p g > 0 -> ftx s g > 0.
Proof.
  intros Hp Hg Hl. rewrite (i_bytes s I g Hg).
  pose proof (sum_one P (owed s g) p Hp) as H. unfold owed at 1 in H. lia.
Qed.

End Window.

(** ** No reachable state is faulty *)

Lemma inv_safe s : inv s -> ~ faulty s.
Proof.
  intros I F. destruct F.
  - destruct H as [Hi Ht]. pose proof (i_order s I i Hi).
    pose proof (held s I i t p Hi ltac:(lia) H0) as Hh. lia.
  - pose proof (past_exact s I p H ltac:(lia)) as [_ Hf].
    pose proof (i_flight s I p (stage (pt s p)) H (stage_small _) H1) as [Hu _].
    rewrite use_stage in Hu. lia.
  - destruct H as [Hi Ht]. pose proof (i_order s I i Hi).
    pose proof (held s I i t p Hi ltac:(lia) H0) as (_ & _ & Hh). auto.
  - destruct H as [Hi Ht]. pose proof (i_order s I i Hi).
    pose proof (held s I i t p Hi ltac:(lia) H0) as (Hz & Hu & _).
    pose proof (i_cont s I p (stage t) H0 (stage_small _) Hz ltac:(lia)). congruence.
  - destruct H as [Hi Ht]. pose proof (i_order s I i Hi).
    pose proof (held s I i t p Hi ltac:(lia) H0) as (Hz & Hu & _).
    pose proof (i_cont s I p (stage t) H0 (stage_small _) Hz ltac:(lia)) as Hc.
    rewrite H1, Hu in Hc. injection Hc as Hc. apply H2. rewrite Hc.
    pose proof (divmod D D_pos t) as [Hd _]. unfold stage. replace (t / D + 1 - 1) with (t / D) by lia. lia.
  - pose proof (arrival_room s I p H H0). lia.
  - pose proof (i_empty_open s I (stage (cr s i)) (stage_small _)). lia.
  - pose proof (bytes_match s I p g H H0 H1). lia.
  - pose proof (empty_pass_exact s I p H H0 H2). easy.
  - pose proof (empty_near s I p H H0). lia.
  - pose proof (full_pass_exact s I i H H1). easy.
  - pose proof (full_near s I i H). lia.
Qed.

(** ** The invariant holds at the start and is kept *)

Lemma inv_start : inv start.
Proof.
  split; unfold arrived, owed; cbn; intros; try lia.
  - rewrite sum_zero; [lia|]. intros. easy.
  - now rewrite sum_zero.
  - rewrite sum_zero; [lia|]. easy.
Qed.

Ltac fields := cbn [pt pa left car cont fph farr ftx eph earr ct cd cr] in *.
Ltac named s' := match goal with |- inv ?x => set (s' := x) end.

(** Steps that leave arrivals and bytes as they are. *)
Lemma inv_acquire s p : inv s -> p < P -> pa s p = 0 -> pt s p < N -> empty_passes s (pt s p) ->
  inv (mk (pt s) (upd (pa s) p 1) (left s) (car s) (cont s)
          (fph s) (farr s) (ftx s) (eph s) (earr s) (ct s) (cd s) (cr s)).
Proof.
  intros I Hp Ha Ht Hw. pose proof (empty_pass_exact s I p Hp Ha Hw) as Hx. named s'.
  assert (A : forall q, arrived s' q = arrived s q).
  { intros q. unfold arrived, s'. fields. unfold upd. destruct (Nat.eq_dec p q) as [<-|]; [|easy].
    now rewrite Ha. }
  assert (O : forall g q, owed s' g q = owed s g q).
  { intros g q. unfold owed, s'. fields. unfold upd. destruct (Nat.eq_dec p q) as [<-|]; [|easy].
    now rewrite Ha. }
  destruct I as [J1 J2 J3 J4 J5 J6 J7 J8 J9 J10 J11 J12 J13 J14 J15 J16 J17 J18 J19].
  split; intros; unfold s' in *; fold s' in A, O; fields; eauto.
  - erewrite sum_ext; [now apply J1|]. intros; cbv beta. now rewrite <- A.
  - change (fph s g <= use (arrived s' p0) g). rewrite A. auto.
  - change (use (arrived s' p0) g <= fph s g + 1). rewrite A. auto.
  - erewrite sum_ext; [now apply J4|]. intros; cbv beta. apply O.
  - unfold upd. destruct (Nat.eq_dec p p0); [lia|auto].
  - split; [apply J8; auto|]. unfold upd. destruct (Nat.eq_dec p p0) as [<-|]; [lia|].
    apply J8; auto.
  - revert H0. unfold upd. destruct (Nat.eq_dec p p0) as [<-|]; [lia|auto].
  - revert H0. unfold upd. destruct (Nat.eq_dec p p0) as [<-|]; [lia|auto].
Qed.

Ltac at_stage g := match goal with
  |- context [upd _ ?x _ g] => unfold upd; destruct (Nat.eq_dec x g) end.

Lemma inv_expect s p f a x : inv s -> p < P -> pa s p = 1 ->
  (f, a, x) = count_full s (stage (pt s p)) (S (farr s (stage (pt s p))))
                         (ftx s (stage (pt s p)) + K) ->
  inv (mk (pt s) (upd (pa s) p 2) (left s) (car s) (cont s)
          f a x (eph s) (earr s) (ct s) (cd s) (cr s)).
Proof.
  intros I Hp Ha Hc. pose proof (past_exact s I p Hp ltac:(lia)) as [He Hf].
  pose proof (arrival_room s I p Hp Ha) as Hr.
  assert (V : over P (S (farr s (stage (pt s p)))) (ftx s (stage (pt s p)) + K) = false).
  { unfold over. apply Bool.andb_false_iff. right. apply Nat.eqb_neq. lia. }
  unfold count_full in Hc. rewrite V in Hc. injection Hc as -> -> ->.
  set (g0 := stage (pt s p)) in *. named s'.
  assert (A : forall q, arrived s' q = arrived s q + (if Nat.eq_dec p q then 1 else 0)).
  { intros q. unfold arrived, s'. fields. unfold upd. destruct (Nat.eq_dec p q) as [<-|]; [|lia].
    rewrite Ha. cbn. lia. }
  assert (A0 : arrived s p = pt s p) by (apply arrived_at; lia).
  assert (F : forall g, fph s' g = fph s g).
  { intros g. unfold s'. fields. at_stage g; congruence. }
  assert (U : forall q g, use (arrived s' q) g = use (arrived s q) g +
                          (if Nat.eq_dec p q then if Nat.eq_dec g0 g then 1 else 0 else 0)).
  { intros q g. rewrite A. destruct (Nat.eq_dec p q) as [<-|]; [|rewrite !Nat.add_0_r; easy].
    rewrite A0, Nat.add_1_r, use_next. reflexivity. }
  assert (O : forall g q, owed s' g q = owed s g q +
                          (if Nat.eq_dec p q then if Nat.eq_dec g0 g then K else 0 else 0)).
  { intros g q. unfold owed, s'. fields. unfold upd. destruct (Nat.eq_dec p q) as [<-|]; [|lia].
    rewrite Ha. cbn [Nat.eqb andb]. fold g0. destruct (Nat.eqb_spec g0 g), (Nat.eq_dec g0 g); lia. }
  assert (S1 : forall g, g < D -> sum P (fun q => use (arrived s' q) g) =
                 sum P (fun q => use (arrived s q) g) + (if Nat.eq_dec g0 g then 1 else 0)).
  { intros g Hg. pose proof (sum_change P (fun q => use (arrived s q) g)
      (fun q => use (arrived s' q) g) p Hp) as Hs. cbv beta in Hs. rewrite U in Hs.
    destruct (Nat.eq_dec p p) in Hs; [|easy].
    specialize (Hs ltac:(intros q Hq; rewrite U; destruct (Nat.eq_dec p q); [congruence|lia])). lia. }
  assert (S2 : forall g, g < D -> sum P (owed s' g) =
                 sum P (owed s g) + (if Nat.eq_dec g0 g then K else 0)).
  { intros g Hg. pose proof (sum_change P (owed s g) (owed s' g) p Hp) as Hs. rewrite O in Hs.
    destruct (Nat.eq_dec p p) in Hs; [|easy].
    specialize (Hs ltac:(intros q Hq; rewrite O; destruct (Nat.eq_dec p q); [congruence|lia])). lia. }
  destruct I as [J1 J2 J3 J4 J5 J6 J7 J8 J9 J10 J11 J12 J13 J14 J15 J16 J17 J18 J19].
  split; intros; rewrite ?F, ?U; try (rewrite S1 by easy); try (rewrite S2 by easy); auto.
  - unfold s'. fields. rewrite J1 by easy. at_stage g; [subst g|]; lia.
  - pose proof (J2 p0 g H H0). lia.
  - destruct (Nat.eq_dec p p0) as [<-|]; [|specialize (J3 p0 g H H0); lia].
    destruct (Nat.eq_dec g0 g) as [<-|]; [|specialize (J3 p g H H0); lia].
    rewrite A0. unfold g0. rewrite use_stage. fold g0. lia.
  - unfold s'. fields. rewrite <- J4 by easy. at_stage g; [subst g|]; lia.
  - revert H0. unfold s'. fields. at_stage g; [lia|auto].
  - now apply J6.
  - unfold s'. fields. unfold upd. destruct (Nat.eq_dec p p0); [lia|auto].
  - unfold s'. fields. split; [apply J8; auto|]. unfold upd.
    destruct (Nat.eq_dec p p0) as [<-|]; intros; apply J8; auto; lia.
  - now apply J9.
  - revert H0. unfold s'. fields. unfold upd. destruct (Nat.eq_dec p p0) as [<-|]; [|auto].
    intros _. apply J10; auto; lia.
  - revert H0. unfold s'. fields. unfold upd.
    destruct (Nat.eq_dec p p0) as [<-|]; [easy|auto].
  - now apply J12.
  - now apply J13.
  - now apply J14.
  - now apply J15.
  - now apply (J16 i).
  - now apply J17.
  - now apply J18.
  - now apply J19.
Qed.

Lemma inv_issue s p : inv s -> p < P -> pa s p = 2 ->
  inv (mk (upd (pt s) p (S (pt s p))) (upd (pa s) p 0)
          (upd2 (left s) p (stage (pt s p)) K)
          (upd2 (car s) p (stage (pt s p)) (pt s p))
          (upd2 (cont s) p (stage (pt s p)) None)
          (fph s) (farr s) (ftx s) (eph s) (earr s) (ct s) (cd s) (cr s)).
Proof.
  intros I Hp Ha. pose proof (past_exact s I p Hp ltac:(lia)) as [He Hf].
  assert (Hz : left s p (stage (pt s p)) = 0).
  { destruct (Nat.eq_dec (left s p (stage (pt s p))) 0) as [|n]; [easy|exfalso].
    apply (inv_safe s I). now apply overwrite_in_flight with p; [| |lia]. }
  set (g0 := stage (pt s p)) in *. named s'.
  assert (T : forall g, use (S (pt s p)) g = use (pt s p) g + (if Nat.eq_dec g0 g then 1 else 0)).
  { intros. apply use_next. }
  assert (A : forall q, arrived s' q = arrived s q).
  { intros q. unfold arrived, s'. fields. unfold upd. destruct (Nat.eq_dec p q) as [<-|]; [|easy].
    rewrite Ha. cbn. lia. }
  assert (O : forall g q, owed s' g q = owed s g q).
  { intros g q. unfold owed, s'. fields. unfold upd2, upd.
    destruct (Nat.eq_dec p q) as [<-|]; [|easy]. rewrite Ha. cbn [Nat.eqb andb]. fold g0.
    destruct (Nat.eqb_spec g0 g), (Nat.eq_dec g0 g) as [e'|]; try lia. rewrite <- e', Hz. lia. }
  destruct I as [J1 J2 J3 J4 J5 J6 J7 J8 J9 J10 J11 J12 J13 J14 J15 J16 J17 J18 J19].
  pose proof (divmod D D_pos (pt s p)) as [Hd _]. fold (stage (pt s p)) in Hd. fold g0 in Hd.
  split; intros; rewrite ?A.
  - erewrite sum_ext; [now apply J1|]. intros; cbv beta. now rewrite A.
  - now apply J2.
  - now apply J3.
  - erewrite sum_ext; [now apply J4|]. intros; cbv beta. now rewrite O.
  - now apply J5.
  - revert H1. unfold s'. fields. unfold upd2, upd. destruct (Nat.eq_dec p p0) as [<-|]; [|auto].
    rewrite T. destruct (Nat.eq_dec g0 g) as [<-|]; intros.
    + unfold g0 at 1. rewrite use_stage, Hf. split; [lia|exact Hd].
    + rewrite Nat.add_0_r. auto.
  - unfold s'. fields. unfold upd. destruct (Nat.eq_dec p p0); [lia|auto].
  - unfold s'. fields. unfold upd. destruct (Nat.eq_dec p p0) as [<-|]; [|auto].
    pose proof (J8 p Hp). lia.
  - unfold s'. fields. unfold upd. destruct (Nat.eq_dec p p0) as [<-|]; [|auto].
    rewrite T. destruct (Nat.eq_dec g0 g) as [<-|].
    + unfold g0 at 1. rewrite use_stage. lia.
    + pose proof (J9 p g H H0). lia.
  - revert H0. unfold s'. fields. unfold upd. destruct (Nat.eq_dec p p0) as [<-|]; [lia|auto].
  - revert H0. unfold s'. fields. unfold upd. destruct (Nat.eq_dec p p0) as [<-|]; [lia|auto].
  - revert H1 H2. unfold s'. fields. unfold upd2, upd. destruct (Nat.eq_dec p p0) as [<-|]; [|auto].
    rewrite T. destruct (Nat.eq_dec g0 g) as [<-|]; [lia|]. rewrite Nat.add_0_r. auto.
  - now apply J13.
  - now apply J14.
  - now apply J15.
  - now apply (J16 i).
  - now apply J17.
  - now apply J18.
  - now apply J19.
Qed.

Lemma inv_chunk s p g0 f a x : inv s -> p < P -> g0 < D -> left s p g0 > 0 ->
  (f, a, x) = count_full s g0 (farr s g0) (ftx s g0 - 1) ->
  inv (mk (pt s) (pa s) (upd2 (left s) p g0 (left s p g0 - 1)) (car s)
          (upd2 (cont s) p g0 (if left s p g0 =? 1 then Some (car s p g0) else None))
          f a x (eph s) (earr s) (ct s) (cd s) (cr s)).
Proof.
  intros I Hp Hg0 Hl Hc. pose proof (bytes_match s I p g0 Hp Hg0 Hl) as Hb.
  unfold count_full in Hc. injection Hc as -> -> ->.
  destruct (over P (farr s g0) (ftx s g0 - 1)) eqn:V; named s';
  assert (A : forall q, arrived s' q = arrived s q) by easy;
  assert (O : forall g q, owed s' g q + (if Nat.eq_dec p q then if Nat.eq_dec g0 g then 1 else 0 else 0)
                          = owed s g q) by
  (intros g q; unfold owed, s'; fields; unfold upd2, upd;
    destruct (Nat.eq_dec p q) as [e|]; [|lia]; subst q;
    destruct (Nat.eq_dec g0 g) as [e|]; [subst g|]; lia);
  assert (S2 : forall g, g < D -> sum P (owed s' g) + (if Nat.eq_dec g0 g then 1 else 0)
                          = sum P (owed s g)) by
  (intros g Hg; pose proof (sum_change P (owed s g) (owed s' g) p Hp) as Hs;
    specialize (Hs ltac:(intros q Hq; specialize (O g q); destruct (Nat.eq_dec p q); [congruence|lia]));
    specialize (O g p); destruct (Nat.eq_dec p p); [lia|easy]);
  assert (L' : forall q g, left s' q g <= left s q g) by
  (intros q g; unfold s'; fields; unfold upd2, upd; destruct (Nat.eq_dec p q) as [e|]; [subst q|lia];
    destruct (Nat.eq_dec g0 g) as [e|]; [subst g|]; lia);
  assert (CO : forall q g, left s' q g = 0 -> left s q g = 0 \/
                (q = p /\ g = g0 /\ cont s' q g = Some (car s p g0) /\ left s q g > 0)) by
  (intros q g; unfold s'; fields; unfold upd2, upd; destruct (Nat.eq_dec p q) as [e|]; [subst q|auto];
    destruct (Nat.eq_dec g0 g) as [e|]; [subst g|auto]; intros; right;
    destruct (Nat.eqb_spec (left s p g0) 1); [repeat split; auto|lia]);
  assert (CK : forall q g, left s q g = 0 -> cont s' q g = cont s q g) by
  (intros q g; unfold s'; fields; unfold upd2, upd; destruct (Nat.eq_dec p q) as [e|]; [subst q|auto];
    destruct (Nat.eq_dec g0 g) as [e|]; [subst g; lia|auto]);
  destruct I as [J1 J2 J3 J4 J5 J6 J7 J8 J9 J10 J11 J12 J13 J14 J15 J16 J17 J18 J19].
  - unfold over in V. apply Bool.andb_true_iff in V as [V1 V2].
    apply Nat.eqb_eq in V1. apply Nat.eqb_eq in V2.
    assert (Z : sum P (owed s' g0) = 0).
    { specialize (S2 g0 Hg0). rewrite <- J4 in S2 by easy.
      destruct (Nat.eq_dec g0 g0) in S2; [lia|easy]. }
    assert (Z1 : forall q, q < P -> owed s' g0 q = 0).
    { intros q Hq. pose proof (sum_one P (owed s' g0) q Hq). lia. }
    assert (G : forall q, q < P -> use (arrived s q) g0 = fph s g0 + 1).
    { apply sum_full; [intros; now apply J3|]. rewrite J1 by easy. lia. }
    assert (F : forall g, fph s' g = fph s g + (if Nat.eq_dec g0 g then 1 else 0)).
    { intros g. unfold s'. fields. at_stage g; [subst g|]; lia. }
    split; intros; rewrite ?A, ?F.
    + erewrite (sum_ext P _ (fun q => use (arrived s q) g)) by (intros; now rewrite A).
      rewrite J1 by easy. unfold s'. fields. at_stage g; [subst g|]; nia.
    + destruct (Nat.eq_dec g0 g) as [<-|]; [rewrite G by easy; lia|]. specialize (J2 p0 g H H0). lia.
    + specialize (J3 p0 g H H0). lia.
    + specialize (S2 g H). unfold s' at 1. fields. at_stage g; [subst g; lia|]. rewrite J4 by easy. lia.
    + revert H0. unfold s'. fields. at_stage g; [lia|auto].
    + destruct (Nat.eq_dec g0 g) as [<-|n].
      * specialize (Z1 p0 H). unfold owed in Z1. lia.
      * specialize (L' p0 g). rewrite Nat.add_0_r. apply J6; auto; lia.
    + now apply J7.
    + now apply J8.
    + now apply J9.
    + now apply J10.
    + unfold s'. fields. destruct (Nat.eq_dec g0 (stage (pt s p0))) as [e|].
      * specialize (Z1 p0 H). unfold owed, s' in Z1. unfold s' in H0. fields. rewrite e, H0 in Z1. fields.
        cbn [Nat.eqb] in Z1. rewrite Nat.eqb_refl in Z1. cbn [andb] in Z1. lia.
      * rewrite Nat.add_0_r. now apply J11.
    + destruct (CO p0 g H1) as [Hz|(-> & -> & -> & Hz)]; [rewrite CK by easy; now apply J12|].
      destruct (J6 p g0 H H0 Hz) as [H3 H4]. f_equal. unfold s'. fields. rewrite H3, H4. f_equal. f_equal. lia.
    + now apply J13.
    + now apply J14.
    + specialize (J15 i g H H0). unfold s'. fields. lia.
    + now apply (J16 i).
    + now apply J17.
    + now apply J18.
    + now apply J19.
  - assert (F : forall g, fph s' g = fph s g).
    { intros g. unfold s'. fields. at_stage g; congruence. }
    split; intros; rewrite ?A, ?F.
    + erewrite (sum_ext P _ (fun q => use (arrived s q) g)) by (intros; now rewrite A).
      rewrite J1 by easy. unfold s'. fields. at_stage g; [subst g|]; nia.
    + now apply J2.
    + now apply J3.
    + specialize (S2 g H). unfold s' at 1. fields. at_stage g; [subst g|].
      * rewrite J4 by easy. lia.
      * rewrite J4 by easy. lia.
    + revert H0. unfold s'. fields. at_stage g; [subst g|auto]. intros H1.
      unfold over in V. apply Bool.andb_false_iff in V as [V|V]; apply Nat.eqb_neq in V; lia.
    + specialize (L' p0 g). apply J6; auto; lia.
    + now apply J7.
    + now apply J8.
    + now apply J9.
    + now apply J10.
    + now apply J11.
    + destruct (CO p0 g H1) as [Hz|(-> & -> & -> & Hz)]; [rewrite CK by easy; now apply J12|].
      destruct (J6 p g0 H H0 Hz) as [H3 H4]. f_equal. unfold s'. fields. rewrite H3, H4. f_equal. f_equal. lia.
    + now apply J13.
    + now apply J14.
    + now apply J15.
    + now apply (J16 i).
    + now apply J17.
    + now apply J18.
    + now apply J19.
Qed.

Lemma inv_read s i : inv s -> i < C -> wants s i -> full_passes s (ct s i) ->
  inv (mk (pt s) (pa s) (left s) (car s) (cont s)
          (fph s) (farr s) (ftx s) (eph s) (earr s) (upd (ct s) i (S (ct s i))) (cd s) (cr s)).
Proof.
  intros I Hi [Hw1 Hw2] Hp. pose proof (full_pass_exact s I i Hi Hp) as Hx. named s'.
  destruct I as [J1 J2 J3 J4 J5 J6 J7 J8 J9 J10 J11 J12 J13 J14 J15 J16 J17 J18 J19].
  split; unfold s'; fields; auto; intros j; intros; unfold upd; destruct (Nat.eq_dec i j) as [<-|]; auto.
  - pose proof (J13 i Hi). lia.
  - lia.
  - rewrite use_next. fold (stage (ct s i)). destruct (Nat.eq_dec (stage (ct s i)) g) as [<-|].
    + rewrite use_stage. lia.
    + specialize (J15 i g H H0). lia.
Qed.

Lemma inv_drain s i : inv s -> i < C -> cd s i < ct s i ->
  inv (mk (pt s) (pa s) (left s) (car s) (cont s)
          (fph s) (farr s) (ftx s) (eph s) (earr s) (ct s) (upd (cd s) i (S (cd s i))) (cr s)).
Proof.
  intros I Hi Hd. named s'.
  destruct I as [J1 J2 J3 J4 J5 J6 J7 J8 J9 J10 J11 J12 J13 J14 J15 J16 J17 J18 J19].
  split; unfold s'; fields; auto; intros j; intros; unfold upd; destruct (Nat.eq_dec i j) as [<-|]; auto.
  pose proof (J13 i Hi). lia.
Qed.

Lemma inv_release s i : inv s -> i < C -> ~ wants s i -> cr s i < N ->
  (if early then cr s i < ct s i else cr s i < cd s i) ->
  inv (mk (pt s) (pa s) (left s) (car s) (cont s) (fph s) (farr s) (ftx s)
          (upd (eph s) (stage (cr s i))
               (if S (earr s (stage (cr s i))) =? E then S (eph s (stage (cr s i)))
                else eph s (stage (cr s i))))
          (upd (earr s) (stage (cr s i))
               (if S (earr s (stage (cr s i))) =? E then 0 else S (earr s (stage (cr s i)))))
          (ct s) (cd s) (upd (cr s) i (S (cr s i)))).
Proof.
  intros I Hi _ _ Hc. rewrite not_early in Hc. rewrite count_right.
  set (g0 := stage (cr s i)). assert (Hg0 : g0 < D) by apply stage_small.
  pose proof (i_order s I i Hi) as Ho. pose proof (fph_window s I g0 Hg0) as Hw.
  assert (Hx : use (cr s i) g0 = eph s g0).
  { pose proof (use_past D D_pos (ct s i) (cr s i) ltac:(lia)) as H1. fold (stage (cr s i)) in H1.
    fold g0 in H1. pose proof (i_read s I i g0 Hi Hg0). pose proof (i_empty_low s I i g0 Hi Hg0).
    unfold g0 in H0 |- * at 1. rewrite use_stage in *. fold g0 in H0 |- *. lia. }
  destruct I as [J1 J2 J3 J4 J5 J6 J7 J8 J9 J10 J11 J12 J13 J14 J15 J16 J17 J18 J19].
  assert (T : forall j g, use (upd (cr s) i (S (cr s i)) j) g = use (cr s j) g +
                 (if Nat.eq_dec i j then if Nat.eq_dec g0 g then 1 else 0 else 0)).
  { intros j g. unfold upd. destruct (Nat.eq_dec i j) as [<-|]; [apply use_next|lia]. }
  assert (S1 : forall g, g < D -> sum C (fun j => use (upd (cr s) i (S (cr s i)) j) g) =
                 sum C (fun j => use (cr s j) g) + (if Nat.eq_dec g0 g then 1 else 0)).
  { intros g Hg. pose proof (sum_change C (fun j => use (cr s j) g)
      (fun j => use (upd (cr s) i (S (cr s i)) j) g) i Hi) as Hs. cbv beta in Hs.
    rewrite (T i) in Hs. destruct (Nat.eq_dec i i) in Hs; [|easy].
    specialize (Hs ltac:(intros j Hj; rewrite T; destruct (Nat.eq_dec i j); [congruence|lia])). lia. }
  destruct (Nat.eqb_spec (S (earr s g0)) C) as [W|W]; named s'.
  - assert (G : forall j, j < C -> use (upd (cr s) i (S (cr s i)) j) g0 = eph s g0 + 1).
    { apply (sum_full C (fun j => use (upd (cr s) i (S (cr s i)) j) g0)).
      - intros j Hj. cbv beta. rewrite T. destruct (Nat.eq_dec i j) as [<-|].
        + destruct (Nat.eq_dec g0 g0); lia.
        + specialize (J17 j g0 Hj Hg0). lia.
      - rewrite S1, J18 by easy. destruct (Nat.eq_dec g0 g0); [nia|easy]. }
    assert (EE : forall g, eph s' g = eph s g + (if Nat.eq_dec g0 g then 1 else 0)).
    { intros g. unfold s'. fields. at_stage g; [subst g|]; lia. }
    split; intros; rewrite ?EE; try solve [now apply J1 | now apply J2 | now apply J3 | now apply J4 |
      now apply J5 | now apply J6 | now apply J7 | now apply J8 | now apply J11 | now apply J12 |
      now apply J15]; unfold s'; fields; auto.
    + specialize (J9 p g H H0). lia.
    + specialize (J10 p H H0). lia.
    + unfold upd. destruct (Nat.eq_dec i i0) as [<-|]; [lia|auto].
    + unfold upd. specialize (J14 i0 H). destruct (Nat.eq_dec i i0) as [<-|]; lia.
    + destruct (Nat.eq_dec g0 g) as [<-|]; [rewrite G by easy; lia|]. rewrite T.
      specialize (J16 i0 g H H0). lia.
    + destruct (Nat.eq_dec g0 g) as [<-|]; [rewrite G by easy; lia|]. rewrite T.
      specialize (J17 i0 g H H0). destruct (Nat.eq_dec i i0); [|lia].
      destruct (Nat.eq_dec g0 g); [easy|lia].
    + rewrite S1, J18 by easy. at_stage g; [subst g|]; nia.
    + at_stage g; [lia|auto].
  - assert (EE : forall g, eph s' g = eph s g).
    { intros g. unfold s'. fields. at_stage g; congruence. }
    split; intros; rewrite ?EE; try solve [now apply J1 | now apply J2 | now apply J3 | now apply J4 |
      now apply J5 | now apply J6 | now apply J7 | now apply J8 | now apply J9 | now apply J10 |
      now apply J11 | now apply J12 | now apply J15]; unfold s'; fields; auto.
    + unfold upd. destruct (Nat.eq_dec i i0) as [<-|]; [lia|auto].
    + unfold upd. specialize (J14 i0 H). destruct (Nat.eq_dec i i0) as [<-|]; lia.
    + rewrite T. specialize (J16 i0 g H H0). lia.
    + rewrite T. specialize (J17 i0 g H H0). destruct (Nat.eq_dec i i0) as [<-|]; [|lia].
      destruct (Nat.eq_dec g0 g) as [<-|]; lia.
    + rewrite S1, J18 by easy. at_stage g; [subst g|]; nia.
    + specialize (J19 g H). at_stage g; [subst g|]; lia.
Qed.

Lemma inv_step s s' : inv s -> step s s' -> inv s'.
Proof.
  intros I St. destruct St.
  - now apply inv_acquire.
  - now apply inv_expect.
  - now apply inv_issue.
  - now apply inv_chunk with (p := p) (g0 := g).
  - now apply inv_read.
  - now apply inv_drain.
  - now apply inv_release.
Qed.

Lemma inv_reachable s : reachable s -> inv s.
Proof. induction 1; [apply inv_start|eauto using inv_step]. Qed.

Theorem ring_safe s : reachable s -> ~ faulty s.
Proof. intros R. apply inv_safe, inv_reachable, R. Qed.

(** ** Nothing is left in flight *)

Theorem ring_no_leak s : reachable s -> ~ leak s.
Proof.
  intros R [[Hf1 Hf2] Hl]. pose proof (inv_reachable s R) as I.
  destruct Hl as [(p & g & Hp & Hg & Hl)|(i & Hi & Hl)].
  - destruct (i_flight s I p g Hp Hg Hl) as [Hu _]. destruct (Hf1 p Hp) as [Hn _].
    pose proof (i_order s I 0 C_pos). pose proof (Hf2 0 C_pos).
    pose proof (i_read s I 0 g C_pos Hg). rewrite Hn in Hu.
    assert (E1 : ct s 0 = N) by lia. rewrite E1 in *. lia.
  - pose proof (i_order s I i Hi). pose proof (Hf2 i Hi). lia.
Qed.

(** ** Producers are at most [D] tiles ahead of every release, consumers ahead of no producer *)

Theorem ring_ahead s : reachable s -> forall p i, p < P -> i < C ->
  pt s p <= cr s i + D /\ ct s i <= pt s p.
Proof.
  intros R p i Hp Hi. pose proof (inv_reachable s R) as I. split.
  - destruct (le_lt_dec (pt s p) (cr s i + D)) as [|H]; [easy|exfalso].
    set (g := stage (cr s i)). assert (Hg : g < D) by apply stage_small.
    pose proof (use_mono D (S (cr s i) + D) (pt s p) g ltac:(lia)) as H1.
    rewrite use_turn, use_next in H1 by easy. fold (stage (cr s i)) in H1. fold g in H1.
    destruct (Nat.eq_dec g g) in H1; [|easy].
    pose proof (i_window s I p g Hp Hg). pose proof (i_empty_low s I i g Hi Hg). lia.
  - destruct (le_lt_dec (ct s i) (pt s p)) as [|H]; [easy|exfalso].
    set (g := stage (pt s p)). assert (Hg : g < D) by apply stage_small.
    pose proof (use_past D D_pos (ct s i) (pt s p) H) as H1. fold (stage (pt s p)) in H1. fold g in H1.
    pose proof (i_read s I i g Hi Hg) as H2. pose proof (i_full_low s I p g Hp Hg) as H3.
    destruct (Nat.eq_dec (pa s p) 2) as [A|A].
    + pose proof (i_issuing s I p Hp A) as H4. fold g in H4. lia.
    + rewrite arrived_at in H3 by easy. unfold g in H3 at 2. rewrite use_stage in H3. lia.
Qed.

(** ** No deadlock *)

Lemma parity_decides a b : {parity a <> parity b} + {parity a = parity b}.
Proof. destruct (Nat.eq_dec (parity a) (parity b)); auto. Qed.

Lemma parity_succ a : parity (S a) <> parity a.
Proof.
  unfold parity. intros H. pose proof (Nat.div_mod a 2 ltac:(lia)).
  pose proof (Nat.div_mod (S a) 2 ltac:(lia)). lia.
Qed.

(** A consumer whose tile all producers are past passes its wait. *)
Lemma reader_goes s i : inv s -> (forall p g, p < P -> g < D -> left s p g = 0) ->
  (forall p, p < P -> pa s p = 0) -> i < C -> (forall p, p < P -> ct s i < pt s p) ->
  full_passes s (ct s i).
Proof.
  intros I Hl Ha Hi Ht. set (g := stage (ct s i)). assert (Hg : g < D) by apply stage_small.
  assert (Z : ftx s g = 0).
  { rewrite (i_bytes s I g Hg). apply sum_zero. intros p Hp. unfold owed.
    rewrite Hl, Ha by easy. easy. }
  assert (F : farr s g < P).
  { pose proof (i_open s I g Hg). destruct (Nat.eq_dec (farr s g) P); [lia|].
    pose proof (i_full_sum s I g Hg).
    pose proof (sum_high P _ (fph s g + 1) (fun q Hq => i_full_high s I q g Hq Hg)) as H2.
    cbv beta in H2. nia. }
  pose proof (sum_low P (fun p => use (arrived s p) g) (ct s i / D + 1)) as H1.
  rewrite (i_full_sum s I g Hg) in H1. specialize (H1 ltac:(intros p Hp; rewrite arrived_at by
    (rewrite Ha by easy; lia); apply (use_past D D_pos); auto)).
  pose proof (full_near s I i Hi) as H2. fold g in H2.
  unfold full_passes, full_parity. fold g.
  replace (fph s g) with (S (ct s i / D)) by nia. apply parity_succ.
Qed.

Theorem ring_progress s : reachable s -> finished s \/ exists s', step s s'.
Proof.
  intros R. pose proof (inv_reachable s R) as I.
  (* a copy in flight *)
  assert (LD : forall p, p < P -> {exists g, g < D /\ left s p g > 0} +
                                  {~ exists g, g < D /\ left s p g > 0}).
  { intros p _. destruct (Count.search D (fun g => left s p g > 0) (fun _ _ => gt_dec _ _))
      as [[g H]|H]; [left; now exists g|].
    right. intros [g [Hg Hx]]. now apply (H g Hg). }
  destruct (Count.search P _ LD) as [[p [Hp Hx]]|Hl].
  { destruct Hx as [g [Hg Hx]]. right. eexists. eapply chunk with (p := p) (g := g); auto; reflexivity. }
  assert (Hl' : forall p g, p < P -> g < D -> left s p g = 0).
  { intros p g Hp Hg. destruct (Nat.eq_dec (left s p g) 0); [easy|exfalso].
    apply (Hl p Hp). exists g. lia. }
  (* a producer past its wait *)
  destruct (Count.search P (fun p => pa s p > 0) (fun _ _ => gt_dec _ _)) as [[p [Hp Hx]]|Ha].
  { right. pose proof (i_place s I p Hp). assert (pa s p = 1 \/ pa s p = 2) as [A|A] by lia.
    - eexists. eapply expect with (p := p); auto; reflexivity.
    - eexists. eapply issue with (p := p); auto. }
  assert (Ha' : forall p, p < P -> pa s p = 0) by (intros p Hp; specialize (Ha p Hp); lia).
  (* a read in flight *)
  destruct (Count.search C (fun i => cd s i < ct s i) (fun _ _ => lt_dec _ _))
    as [[i [Hi Hx]]|Hd].
  { right. eexists. eapply drain with (i := i); auto. }
  assert (WD : forall i, i < C -> {wants s i} + {~ wants s i}).
  { intros i _. unfold wants. destruct (lt_dec (ct s i) N), (le_dec (ct s i) (cr s i + L)); auto;
      right; tauto. }
  (* a stage to release *)
  assert (RD : forall i, i < C -> {~ wants s i /\ cr s i < cd s i} +
                                  {~ (~ wants s i /\ cr s i < cd s i)}).
  { intros i Hi. destruct (WD i Hi), (lt_dec (cr s i) (cd s i)); auto; right; tauto. }
  destruct (Count.search C _ RD) as [[i [Hi [Hx1 Hx2]]]|Hr].
  { right. eexists. eapply release with (i := i); auto.
    - pose proof (i_order s I i Hi). lia.
    - rewrite not_early. auto. }
  assert (Hw : forall i, i < C -> wants s i \/ cr s i = N).
  { intros i Hi. destruct (WD i Hi) as [W|W]; [auto|]. right.
    pose proof (i_order s I i Hi). specialize (Hd i Hi).
    assert (~ cr s i < cd s i) by (intros Hq; now apply (Hr i Hi)).
    unfold wants in W. destruct (lt_dec (ct s i) N); [exfalso; apply W; lia|lia]. }
  (* the producer that is furthest behind *)
  destruct (least P (pt s) P_pos) as [p [Hp Hmin]].
  destruct (Nat.eq_dec (pt s p) N) as [HN|HN].
  - destruct (Count.search C (fun i => cr s i < N) (fun _ _ => lt_dec _ _)) as [[i [Hi Hx]]|Hc].
    + destruct (Hw i Hi) as [[W1 W2]|W]; [|lia]. right.
      eexists. eapply read with (i := i); auto; [split; auto|].
      apply reader_goes; auto. intros q Hq. specialize (Hmin q Hq). lia.
    + left. split.
      * intros q Hq. specialize (Hmin q Hq). pose proof (i_tiles s I q Hq). split; [lia|auto].
      * intros i Hi. specialize (Hc i Hi). pose proof (i_order s I i Hi). lia.
  - right. pose proof (i_tiles s I p Hp) as [Hpt _]. set (g := stage (pt s p)).
    assert (Hg : g < D) by apply stage_small.
    destruct (parity_decides (eph s g) (pt s p / D + 1)) as [W|W].
    + eexists. eapply acquire with (p := p); auto; [lia|].
      unfold empty_passes, empty_parity. now rewrite flipped.
    + assert (X : eph s g + 1 = pt s p / D).
      { pose proof (empty_near s I p Hp (Ha' p Hp)) as H1. fold g in H1.
        destruct (Nat.eq_dec (eph s g) (pt s p / D)) as [e|]; [|lia].
        exfalso. rewrite e, Nat.add_1_r in W. symmetry in W. now apply parity_succ in W. }
      destruct (sum_behind C (fun i => use (cr s i) g) (eph s g)) as [i [Hi Hb]].
      { rewrite (i_empty_sum s I g Hg). pose proof (i_empty_open s I g Hg). nia. }
      assert (B : cr s i + D <= pt s p).
      { destruct (le_lt_dec (cr s i + D) (pt s p)) as [|H]; [easy|exfalso].
        pose proof (use_mono D (pt s p) (cr s i + D) g ltac:(lia)) as H1.
        rewrite use_turn in H1 by easy. unfold g in H1 at 1. rewrite use_stage in H1. fold g in H1.
        assert (H2 : pt s p < cr s i + D) by lia.
        pose proof (use_past D D_pos (cr s i + D) (pt s p) H2) as H3.
        fold (stage (pt s p)) in H3. fold g in H3. rewrite use_turn in H3 by easy. lia. }
      destruct (Hw i Hi) as [[W1 W2]|W1]; [|lia].
      eexists. eapply read with (i := i); auto; [split; auto|].
      apply reader_goes; auto. intros q Hq. specialize (Hmin q Hq). lia.
Qed.

Theorem ring_no_deadlock s : reachable s -> ~ deadlock s.
Proof. intros R [Hn Hd]. destruct (ring_progress s R) as [|[s' Hs]]; [easy|now apply (Hd s')]. Qed.

(** ** Every run ends *)

Definition rest (s : state) : nat :=
  sum P (fun p => (3 + K) * (N - pt s p) - pa s p + sum D (left s p)) +
  sum C (fun i => (N - ct s i) + (N - cd s i) + (N - cr s i)).

Lemma rest_producer s s' p : p < P ->
  (forall q, q <> p -> pt s' q = pt s q /\ pa s' q = pa s q /\ forall g, left s' q g = left s q g) ->
  ct s' = ct s -> cd s' = cd s -> cr s' = cr s ->
  S ((3 + K) * (N - pt s' p) - pa s' p + sum D (left s' p)) =
    (3 + K) * (N - pt s p) - pa s p + sum D (left s p) ->
  S (rest s') = rest s.
Proof.
  intros Hp Hq E1 E2 E3 H. unfold rest. rewrite E1, E2, E3.
  pose proof (sum_change P (fun p => (3 + K) * (N - pt s p) - pa s p + sum D (left s p))
    (fun p => (3 + K) * (N - pt s' p) - pa s' p + sum D (left s' p)) p Hp) as Hs.
  cbv beta in Hs. specialize (Hs ltac:(intros q n; destruct (Hq q n) as [-> [-> Hl]]; f_equal;
    apply sum_ext; auto)). lia.
Qed.

Lemma rest_consumer s s' i : i < C -> pt s' = pt s -> pa s' = pa s -> left s' = left s ->
  (forall j, j <> i -> ct s' j = ct s j /\ cd s' j = cd s j /\ cr s' j = cr s j) ->
  S ((N - ct s' i) + (N - cd s' i) + (N - cr s' i)) =
    (N - ct s i) + (N - cd s i) + (N - cr s i) ->
  S (rest s') = rest s.
Proof.
  intros Hi E1 E2 E3 Hj H. unfold rest. rewrite E1, E2, E3.
  pose proof (sum_change C (fun i => (N - ct s i) + (N - cd s i) + (N - cr s i))
    (fun i => (N - ct s' i) + (N - cd s' i) + (N - cr s' i)) i Hi) as Hs.
  cbv beta in Hs. specialize (Hs ltac:(intros j n; now destruct (Hj j n) as [-> [-> ->]])). lia.
Qed.

(** Each step leaves exactly one step less to be taken: all runs are of one length. *)
Theorem ring_ends s s' : reachable s -> step s s' -> S (rest s') = rest s.
Proof.
  intros R St. pose proof (inv_reachable s R) as I. destruct St.
  - apply rest_producer with p; auto; fields.
    + intros q n. rewrite upd_other; auto.
    + rewrite upd_same. nia.
  - apply rest_producer with p; auto; fields.
    + intros q n. rewrite upd_other; auto.
    + rewrite upd_same. pose proof (i_tiles s I p H). nia.
  - pose proof (i_tiles s I p H) as Ht. apply rest_producer with p; auto; fields.
    + intros q n. unfold upd2. rewrite !upd_other; auto.
    + unfold upd2. rewrite !upd_same.
      assert (Hz : left s p (stage (pt s p)) = 0).
      { destruct (Nat.eq_dec (left s p (stage (pt s p))) 0) as [|n]; [easy|exfalso].
        apply (inv_safe s I). now apply overwrite_in_flight with p; [| |lia]. }
      pose proof (sum_change D (left s p) (upd (left s p) (stage (pt s p)) K) (stage (pt s p))
        (stage_small _) ltac:(intros; apply upd_other; auto)) as Hs.
      rewrite upd_same, Hz in Hs. nia.
  - apply rest_producer with p; auto; fields.
    + intros q n. unfold upd2. rewrite upd_other; auto.
    + unfold upd2. rewrite upd_same.
      pose proof (sum_change D (left s p) (upd (left s p) g (left s p g - 1)) g H0
        ltac:(intros; apply upd_other; auto)) as Hs.
      rewrite upd_same in Hs. lia.
  - apply rest_consumer with i; auto; fields.
    + intros j n. rewrite upd_other; auto.
    + rewrite upd_same. destruct H0. lia.
  - apply rest_consumer with i; auto; fields.
    + intros j n. rewrite upd_other; auto.
    + rewrite upd_same. pose proof (i_order s I i H). lia.
  - apply rest_consumer with i; auto; fields.
    + intros j n. rewrite upd_other; auto.
    + rewrite upd_same. lia.
Qed.

(** The theorems do not hold for want of runs: from everywhere the end is reached. *)
Theorem ring_finishes s : reachable s -> exists s', reachable s' /\ finished s'.
Proof.
  remember (rest s) as n eqn:Hn. revert s Hn. induction n as [n IH] using lt_wf_ind.
  intros s -> R. destruct (ring_progress s R) as [F|[s' St]]; [eauto|].
  apply (IH (rest s')) with (s := s'); [pose proof (ring_ends s s' R St); lia|easy|].
  now apply reach_step with s.
Qed.

End Ring.

(** ** The statement, closed *)

(** A ring as it should be: every empty barrier counts all consumers, producers wait with flipped
    parity, consumers release after their reads, and fewer groups are deferred than there are stages. *)
Definition right (D P C K L : nat) := D >= 1 /\ P >= 1 /\ C >= 1 /\ K >= 1 /\ L < D.

Theorem ring_correct D P C K L N : right D P C K L ->
  forall s, reachable D P C K L N C true false s ->
    ~ faulty D P C L N C true s /\ ~ deadlock D P C K L N C true false s /\ ~ leak D P C N s /\
    (forall p i, p < P -> i < C -> pt s p <= cr s i + D /\ ct s i <= pt s p) /\
    (forall s', step D P C K L N C true false s s' -> S (rest D P C K N s') = rest D P C K N s) /\
    (exists s', reachable D P C K L N C true false s' /\ finished P C N s').
Proof.
  intros (H1 & H2 & H3 & H4 & H5) s R.
  pose (apply_to := fun A (f : D >= 1 -> P >= 1 -> C >= 1 -> K >= 1 -> L < D -> C = C ->
    true = true -> false = false -> forall s, reachable D P C K L N C true false s -> A s) =>
    f H1 H2 H3 H4 H5 eq_refl eq_refl eq_refl s R).
  split; [exact (apply_to _ (ring_safe D P C K L N C true false))|].
  split; [exact (apply_to _ (ring_no_deadlock D P C K L N C true false))|].
  split; [exact (apply_to _ (ring_no_leak D P C K L N C true false))|].
  split; [exact (apply_to _ (ring_ahead D P C K L N C true false))|].
  split; [|exact (apply_to _ (ring_finishes D P C K L N C true false))].
  intros s' St. eapply ring_ends; [..|exact R|exact St]; auto.
Qed.

